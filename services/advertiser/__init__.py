"""The advertiser: looks at GPUs through NVML, applies the wanted sharing, publishes `inventory`."""

"""What the services share, from pure values (`domain`) up to adapters (`bus`, `nvml`)."""

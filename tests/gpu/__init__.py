"""The read-only suite on a real NVML: `make gpu`, never part of `make test`."""

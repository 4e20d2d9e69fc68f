"""NVML as the product uses it: ports, a driver over pynvml, and threads that may hang."""

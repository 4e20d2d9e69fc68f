"""NVML as the product uses it: what becomes of answers, silence and loss."""

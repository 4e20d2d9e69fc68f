"""Values of the trade: GPUs, MIG devices, slots, holders, problems. Frozen and pure."""

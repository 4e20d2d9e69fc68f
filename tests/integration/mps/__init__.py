"""The MPS service and the programs that stand for nvidia-cuda-mps-control."""

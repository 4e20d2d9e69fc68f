"""Tests against the programs that people look at slicewire with: Prometheus, a collector, DCGM."""

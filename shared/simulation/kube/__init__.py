"""The simulated cluster: API server, kubelet and scheduler of one process."""

"""The embedded cluster: real nats-server, real services, simulated GPUs, a fake kubelet a node."""

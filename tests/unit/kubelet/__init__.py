"""The kubelet's APIs: sockets, the fake kubelet, the scheduler that fills it."""

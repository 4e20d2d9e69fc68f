"""The kubelet's gRPC APIs: our own proto texts, the stubs made of them, unix socket helpers."""

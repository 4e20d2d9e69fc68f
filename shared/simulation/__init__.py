"""Stand-ins for what slicewire meets: GPUs, Kubernetes. Services never import them."""

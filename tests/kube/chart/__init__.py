"""The chart and the images on a real Kubernetes, as an administrator installs them."""

"""What the chart gives to Kubernetes, for values as people write them."""

"""What the controller decides, without a cluster."""

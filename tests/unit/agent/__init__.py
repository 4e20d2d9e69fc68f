"""What the agent says."""

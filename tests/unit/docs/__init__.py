"""What the pages say is what the commands do."""

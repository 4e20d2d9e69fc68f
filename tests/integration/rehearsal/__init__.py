"""The embedded cluster, looked at by every condition, and by the commands."""

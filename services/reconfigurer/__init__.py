"""The two halves of a change: the controller in the cluster, the agent on the node."""

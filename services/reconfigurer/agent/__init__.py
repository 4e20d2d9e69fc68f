"""Brings a node to the hardware layout that is wanted; in this version it says why it need not."""

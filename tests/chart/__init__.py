"""The chart: what its values may be and what they become."""

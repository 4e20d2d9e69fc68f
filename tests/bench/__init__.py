"""Figures, not tests: `make bench` prints one JSON object and judges nothing."""

"""Tests on a real Kubernetes: its programs are built from source, its nodes are of this machine."""

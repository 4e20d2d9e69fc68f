"""Follows nodes and the sharing ConfigMap, and says on the bus what each node is to offer.

The only part of slicewire with rights on the cluster; one of its processes leads at a time.
"""

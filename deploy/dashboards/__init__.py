"""Tables of panels → the chart's Grafana dashboards (deploy/chart/dashboards).

Each module but `form`, `grafana` and `promql` is one dashboard, and reads as one: rows of panels
from left to right.
"""

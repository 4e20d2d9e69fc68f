"""Tables of panels → the chart's Grafana dashboards (deploy/chart/dashboards).

Each module but `form`, `promql`, `panels` and `grafana` is one dashboard, and reads as one: rows of
panels from left to right.
"""

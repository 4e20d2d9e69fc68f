"""Pictures of dashboards and of a trace, for the docs."""

"""What gets slicewire onto a cluster; in Python only what its dashboards are made of."""

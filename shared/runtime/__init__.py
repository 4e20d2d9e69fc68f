"""What every service runs on: clock, settings, tasks, files, locks. Knows no client library."""

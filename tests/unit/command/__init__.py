"""The console command and the forms that its sub-commands print."""

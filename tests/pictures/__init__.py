"""Pictures of the commands in docs/pictures, drawn from a rehearsal."""

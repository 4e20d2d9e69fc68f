"""The three services, the rehearsal engine and the commands of slicewire."""

"""What the bus says, as commands and rehearsals show it."""

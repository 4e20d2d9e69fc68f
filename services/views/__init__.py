"""What the bus says → the forms that commands and rehearsals show. Pure; no transport here."""

"""What the bus says → the forms that commands and rehearsals show.

`book` follows the bus; everything else here turns values into values.
"""

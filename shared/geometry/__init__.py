"""Pure: how a GPU is to be cut into MIG instances, and what has to go and come for it.

`load` reads a text of mig-parted, `resolve` finds what it wants of each GPU of a node, `place`
and `why` decide by a board's placement tables, `plan` says what is kept, destroyed and created.
"""

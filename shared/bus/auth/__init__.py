"""Who may enter the bus, decided by us: keys, signed tokens, sealed questions of the server.

Only the controller and `slicewire bus keys` import this package: it needs PyNaCl, which no node
image carries. `nkeys` writes and reads keys, `jwt` signs and checks claims, `sealing` opens and
closes boxes, `callout` turns a question of the server into an answer, `desk` keeps answering.
"""

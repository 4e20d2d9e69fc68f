"""Pure: a sharing text becomes a config, a config and hardware become shares, shares become offers.

`load` reads a text, `select` chooses it, `shares` applies it to GPUs, `expand` names the slots.
"""

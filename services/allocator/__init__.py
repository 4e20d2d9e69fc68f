"""The node's device plugin: answers the kubelet at once, and keeps the ledger of every slot.

Inventory (what devices offer) + List (who holds what) + Allocate calls → ledger → ListAndWatch.
Pure: `ledger`, `grant_rows`, `standing`, `preference`, `grant`. `app` composes the rest.
"""

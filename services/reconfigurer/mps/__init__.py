"""The MPS service: keeps one MPS control daemon for each GPU that is to be shared by MPS.

It runs in pods of its own, which an upgrade leaves alone: with them would end their clients.
"""

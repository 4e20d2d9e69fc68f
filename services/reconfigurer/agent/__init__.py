"""Brings a node's GPUs to the MIG layout that is wanted, and touches nothing else.

Pure: `plan`, `change`, `cutting`, `ending` decide by `view`, `sight` and `memory`; `looking` and
`executor` meet NVML, `journal` the disk, `loop` carries decisions out. `app` composes.
"""

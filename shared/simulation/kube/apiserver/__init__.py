"""The embedded Kubernetes API server: `ApiServer` starts it, `faults` says what may go wrong.

Kinds are data, objects are JSON bytes, rules are pure; facts about the real server that it copies
are told where they are copied. Left out: RBAC, admission policies, schemas (so unknown fields
stay), custom resources, managed fields, server-side apply.
"""

from shared.simulation.kube.apiserver.server import ApiServer

__all__ = ["ApiServer"]

"""A kubelet without containers: real gRPC on real sockets, a node and pods at an API server.

`kubelet.FakeKubelet` composes the rest. It is as late and as wrong as the real one where services
would notice: `switches` names what a rehearsal may vary.
"""

"""Who may enter the bus: the server's questions, answered by reviews of pods' tokens.

Every replica of the controller answers, whether it leads or not: `app` composes, `identity` says
whose token it is, `reviews` asks the API server, `cache` remembers.
"""

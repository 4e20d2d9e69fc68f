"""Stories played by the command itself: real services, real nats-server, simulated GPUs."""

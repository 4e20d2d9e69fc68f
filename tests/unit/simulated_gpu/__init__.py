"""The simulated GPUs: what they refuse, how they break, how services reach them."""

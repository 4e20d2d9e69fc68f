"""A simulated GPU node at NVML's C boundary: one owner of the state, thin shims in the services.

`owner` holds an `engine` behind a unix socket; `install` puts a `library` of C symbols into
pynvml, whose calls travel to the owner; `control` breaks and heals the hardware. Only the owner
reads the catalogue, so a service with the shim is hardly heavier than one without.
"""

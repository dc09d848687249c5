"""gRPC, kept from writing to our stderr: everybody here takes it from this module.

Its C library prints warnings of its own, such as for each client that goes. The agent asks a
kubelet without it: see pyproject.toml.
"""

import os

os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import grpc  # the library reads the environment when it is loaded, and never again

__all__ = ["grpc"]

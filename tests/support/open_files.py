"""A process that can open no file more."""

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_file_more() -> Iterator[None]:
    """Let each opening fail as when too many files are open; what is open can be read."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

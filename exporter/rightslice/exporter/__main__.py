"""The command `rightslice-exporter`: looks at the NVML binding before anything is made of it."""

import os
import signal
import sys
from collections.abc import Sequence

from rightslice.exporter.host.nvml.binding import wrong_binding_text

EXIT_BAD_BINDING = 4
CHECK = "check"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, or check the node once; returns the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if given and given[0] == CHECK:
        # Only here: it needs no NVML, and the agent needs none of it.
        from rightslice.exporter.check.command import main as check

        return check(given[1:], os.environ)
    # From the first moment: a request to release NVML must not end a process that is starting.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGUSR2))
    wrong = wrong_binding_text()
    if wrong:
        print(f"rightslice-exporter: {wrong}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_BINDING
    # Only now: what this imports reads the binding's names, and would fail without a remedy.
    from rightslice.exporter.program import run

    return run(given)


if __name__ == "__main__":
    sys.exit(main())

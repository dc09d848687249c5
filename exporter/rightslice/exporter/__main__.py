"""The command `rightslice-exporter`: looks at the NVML binding before anything is made of it."""

import signal
import sys
from collections.abc import Sequence

from rightslice.exporter.host.nvml.binding import wrong_binding_text

EXIT_BAD_BINDING = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    # From the first moment: a request to release NVML must not end a process that is starting.
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGUSR1, signal.SIGUSR2))
    wrong = wrong_binding_text()
    if wrong:
        print(f"rightslice-exporter: {wrong}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_BINDING
    # Only now: what this imports reads the binding's names, and would fail without a remedy.
    from rightslice.exporter.program import run

    return run(arguments)


if __name__ == "__main__":
    sys.exit(main())

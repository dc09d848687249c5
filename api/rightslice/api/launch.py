"""The entry point of `rightslice`: says what is missing where only the agent was installed."""

import sys


def main() -> int:
    """Run the program, or name the libraries that it needs."""
    try:
        from rightslice.api.__main__ import main as run
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"rightslice: the service needs {error.name}, which the agent alone does not; "
            "install it with its extra: rightslice[api]\n"
        )
        return 2
    except KeyboardInterrupt:  # while libraries load
        return 130
    return run()

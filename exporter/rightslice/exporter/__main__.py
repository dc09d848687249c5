"""The program `rightslice-exporter`: reads its settings, samples, serves, stops on a signal."""

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.metadata import PackageNotFoundError, version

from rightslice.exporter import logs
from rightslice.exporter.collectors import load
from rightslice.exporter.host.clock import real_clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml import NvmlError
from rightslice.exporter.sampler import Identity, Sampler
from rightslice.exporter.server import Server
from rightslice.exporter.settings import Settings, read_settings

log = logging.getLogger("rightslice.exporter")

ENDING = (signal.SIGTERM, signal.SIGINT)
# How often the main thread looks whether sampling still runs.
LOOK_SECONDS = 1.0
EXIT_CANNOT_LISTEN = 1
EXIT_BAD_SCENARIO = 2


def own_version() -> str:
    """Give the version installed; a bare checkout of the folder has none."""
    try:
        return version("rightslice")
    except PackageNotFoundError:
        return "unpackaged"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments, os.environ)
    logs.set_up(settings.log_level)
    with ExitStack() as stack:
        if settings.scenario is not None:
            # Only here: the agent proper needs none of the simulation.
            from rightslice.exporter.simulate.library import installed
            from rightslice.exporter.simulate.scenario import ScenarioError, load_scenario

            try:
                scenario = load_scenario(settings.scenario)
            except ScenarioError as error:
                print(f"rightslice-exporter: {error}", file=sys.stderr)  # noqa: T201
                return EXIT_BAD_SCENARIO
            stack.enter_context(installed(scenario, real_clock().wall_seconds))
        return _serve(settings)


def _serve(settings: Settings) -> int:
    sampler = Sampler(
        Host(settings.node),
        {name: load(name) for name in settings.collectors},
        real_clock(),
        Identity(own_version(), os.environ.get("RIGHTSLICE_REVISION", "")),
        settings.interval_seconds,
    )
    try:
        server = Server((settings.listen_host, settings.listen_port), sampler)
    except (OSError, socket.gaierror) as error:
        log.error(
            "cannot listen on %s:%d: %s; choose another --web.listen-address",
            settings.listen_host,
            settings.listen_port,
            error,
        )
        return EXIT_CANNOT_LISTEN
    stop = threading.Event()
    # Blocked here, and so in every thread to come, and waited for below: a handler that set the
    # event while the main thread waits on it could meet the event's own lock.
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    # Daemon threads: a call that hangs in the driver must not keep the process from ending.
    sampling = threading.Thread(target=sampler.run, args=(stop,), name="sampler", daemon=True)
    serving = threading.Thread(target=server.serve_forever, name="server", daemon=True)
    sampling.start()
    serving.start()
    log.info("serving on %s:%d", *server.server_address[:2])
    while signal.sigtimedwait(ENDING, LOOK_SECONDS) is None:
        if not sampling.is_alive():
            log.error("the sampling loop has ended; leaving, so that the supervisor restarts us")
            return EXIT_CANNOT_LISTEN
    stop.set()
    server.shutdown()
    sampling.join(timeout=1.0)
    if not sampling.is_alive():
        try:
            sampler.close()
        except NvmlError as error:
            log.warning("closing NVML: %s", error)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The agent as a program: reads its settings, samples, serves, stops on a signal."""

import logging
import os
import resource
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace

from rightslice.exporter import logs
from rightslice.exporter.collectors import load
from rightslice.exporter.host.clock import Clock, real_clock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.net.network_calls import NetworkCalls
from rightslice.exporter.host.paths import Paths
from rightslice.exporter.sampler import Identity, Sampler
from rightslice.exporter.server import Server
from rightslice.exporter.settings import Settings, own_version, read_settings

log = logging.getLogger("rightslice.exporter")

ENDING = (signal.SIGTERM, signal.SIGINT)
RELEASE, RESUME = signal.SIGUSR1, signal.SIGUSR2
# How often the main thread looks whether sampling still runs.
LOOK_SECONDS = 1.0
# Within two seconds of SIGTERM the process is gone, whatever hangs.
CLOSING_SECONDS = 1.0
LOG_SECONDS = 0.3
ENDING_POLL_SECONDS = 0.1
EXIT_CANNOT_LISTEN = 1
EXIT_BAD_SCENARIO = 2
# A new process may do better: for the supervisor, who starts one.
EXIT_RESTART = 3


def run(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code."""
    settings = read_settings(sys.argv[1:] if arguments is None else arguments, os.environ)
    # Blocked here, and so in every thread to come, and waited for below: a handler that set an
    # event while the main thread waits on it could meet the event's own lock.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*ENDING, RELEASE, RESUME))
    writer = logs.set_up(settings.log_level)
    allow_open_files()
    try:
        return _run(settings)
    finally:
        writer.wait_until_written(LOG_SECONDS)


def allow_open_files() -> None:
    """Let the process open as many files as it may: a port of a network card has some fifty."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:
        log.debug("%d files may be open, and no more can be had: %s", soft, error)
    else:
        log.debug("%d files may be open, of %d before", hard, soft)


def _run(settings: Settings) -> int:
    clock = real_clock()
    if settings.scenario is None:
        return _serve(settings, settings.paths, clock, NetworkCalls())
    # Only here: the agent proper needs none of the simulation.
    from rightslice.exporter.simulate.machine import simulated_machine
    from rightslice.exporter.simulate.scenario import ScenarioError, load_scenario

    try:
        scenario = load_scenario(settings.scenario)
    except ScenarioError as error:
        print(f"rightslice-exporter: {error}", file=sys.stderr)  # noqa: T201
        return EXIT_BAD_SCENARIO
    with simulated_machine(scenario, clock) as machine:
        network = machine.network
        wanted = settings.network_options
        options = replace(
            network.options,
            excluded=wanted.excluded,
            shows_idle_priorities=wanted.shows_idle_priorities,
        )
        of_node = replace(settings, network_options=options)
        return _serve(of_node, machine.paths, clock, network.calls)


def _serve(settings: Settings, paths: Paths, clock: Clock, calls: NetworkCalls) -> int:
    client = settings.pods_client
    sampler = Sampler(
        Host(
            settings.node,
            paths,
            clock,
            client.fetch if client is not None else None,
            settings.timeslice_seconds,
            settings.oom_options,
            settings.network_options,
            calls,
        ),
        {name: load(name) for name in settings.collectors},
        clock,
        Identity(own_version(), settings.revision),
        settings.interval_seconds,
        settings.min_cards,
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
    # Daemon threads: a call that hangs in the driver must not keep the process from ending.
    sampling = threading.Thread(target=sampler.run, args=(stop,), name="sampler", daemon=True)
    serving = threading.Thread(
        target=server.serve_forever, args=(ENDING_POLL_SECONDS,), name="server", daemon=True
    )
    sampling.start()
    serving.start()
    log.info("serving on %s:%d", *server.server_address[:2])
    code = _wait_for_the_end(sampler, sampling)
    # What fails from now on fails because we leave; the last line is the reason.
    logging.getLogger("rightslice.exporter").setLevel(logging.ERROR)
    stop.set()
    server.shutdown()
    closing = threading.Thread(target=sampler.close, name="closing", daemon=True)
    closing.start()
    closing.join(timeout=CLOSING_SECONDS)
    return code


def _wait_for_the_end(sampler: Sampler, sampling: threading.Thread) -> int:
    """Wait for a signal to end, or a reason to; take requests to release NVML in between."""
    while True:
        info = signal.sigtimedwait((*ENDING, RELEASE, RESUME), LOOK_SECONDS)
        number = info.si_signo if info is not None else None
        if number in ENDING:
            return 0
        if number == RELEASE:
            sampler.release()
        elif number == RESUME:
            sampler.resume()
        text = sampler.give_up_text if sampling.is_alive() else "the sampling loop has ended"
        if text:
            log.error("%s; leaving, so that the supervisor starts a new process", text)
            return EXIT_RESTART

"""A process around one exporter: python -m support.measured_exporter NAME SCENARIO PORT [FLAGS].

It runs the exporter's own program over a simulated node. A byte on its input asks what the process
has used so far; the answer is a line of JSON.
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

from rightslice.exporter.simulate.library import installed
from rightslice.exporter.simulate.scenario import load_scenario
from support.counted_library import CountedLibrary, counted, functions_of_others

TESTS = Path(__file__).resolve().parent.parent
OURS, NVITOP = "rightslice", "nvitop"


@dataclass(frozen=True, slots=True)
class Used:
    """What a process has used since it began."""

    monotonic_seconds: float
    cpu_seconds: float
    library_cpu_seconds: float
    calls: dict[str, int]

    def since(self, before: "Used") -> "Used":
        return Used(
            self.monotonic_seconds - before.monotonic_seconds,
            self.cpu_seconds - before.cpu_seconds,
            self.library_cpu_seconds - before.library_cpu_seconds,
            {name: count - before.calls.get(name, 0) for name, count in self.calls.items()},
        )


def start(
    name: str, scenario: Path, port: int, log: IO[bytes], flags: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """Start an exporter; it serves on the port soon. `flags` are for ours."""
    command = [sys.executable, "-m", "support.measured_exporter", name, str(scenario), str(port)]
    return subprocess.Popen(
        [*command, *flags],
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        text=True,
    )


def ask(process: subprocess.Popen[str]) -> Used:
    """Ask an exporter what it has used."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("?")
    process.stdin.flush()
    return Used(**json.loads(process.stdout.readline()))


def _answer(library: CountedLibrary) -> None:
    while os.read(sys.stdin.fileno(), 1):
        calls, library_cpu_seconds = library.totals()
        used = resource.getrusage(resource.RUSAGE_SELF)
        answer = {
            "monotonic_seconds": time.monotonic(),
            "cpu_seconds": used.ru_utime + used.ru_stime,
            "library_cpu_seconds": library_cpu_seconds,
            "calls": calls,
        }
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _run_ours(port: str, flags: Sequence[str]) -> int:
    from rightslice.exporter.__main__ import main

    address = f"127.0.0.1:{port}"
    return main(["--web.listen-address", address, "--sampling.interval", "1s", *flags])


def _run_nvitop(port: str, flags: Sequence[str]) -> int:
    from nvitop_exporter import cli  # as `nvitop-exporter`, which samples each second too

    sys.argv = ["nvitop-exporter", "--port", port, "--interval", "1"]
    code: int = cli.main()
    return code


PROGRAMS = {OURS: _run_ours, NVITOP: _run_nvitop}


def main(arguments: Sequence[str]) -> int:
    name, file, port, *flags = arguments
    scenario = load_scenario(file)
    others = functions_of_others(tuple(each.pid for each in scenario.cards[0].processes))
    with installed(scenario, time.time) as library, counted(library, others) as counter:
        Thread(target=_answer, args=(counter,), name="answers", daemon=True).start()
        return PROGRAMS[name](port, flags)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

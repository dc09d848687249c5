"""What lldpd hears, from a file that lldpcli wrote or from lldpcli itself.

The daemon's socket speaks a protocol that changes with its versions, so its own program is asked.
"""

import os
import selectors
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from rightslice.exporter.host.net.lldp import MOST_BYTES, LldpError, SwitchPort, parse_neighbors
from rightslice.exporter.host.net.watched_file import WatchedFile

PROGRAM = "lldpcli"
COMMAND = "lldpcli -f json show neighbors"
# Where it is installed, which is not on the path of every user.
SYSTEM_PATHS = ("/usr/sbin", "/usr/local/sbin", "/sbin")
ASK_SECONDS = 60.0
TIMEOUT_SECONDS = 5.0
# A cable may have been moved since.
STALE_SECONDS = 600.0
READ_BYTES = 64 * 1024

NOBODY: Mapping[str, SwitchPort] = {}
Ask = Callable[[str, Path], bytes]


class LldpSource(Protocol):
    """`is_given` tells whether there is one at all; `trouble` says what is wrong with it."""

    is_given: bool
    trouble: str | None

    def neighbors(self, now_seconds: float) -> Mapping[str, SwitchPort]:
        """Give by interface what was heard in the last ten minutes, without waiting for it."""


class LldpFile:
    """The neighbors in a file that somebody writes again and again."""

    is_given = True

    def __init__(self, path: Path, wall_now_seconds: Callable[[], float] = time.time) -> None:
        self.trouble: str | None = None
        self._file = WatchedFile(path, MOST_BYTES)
        self._wall_now_seconds = wall_now_seconds
        self._neighbors = NOBODY
        self._written_seconds = float("-inf")

    def neighbors(self, now_seconds: float) -> Mapping[str, SwitchPort]:
        path = self._file.path
        try:
            if self._read(now_seconds):
                self.trouble = None
        except OSError as error:
            self.trouble = f"{path}: cannot be read ({error.strerror}); let {COMMAND} write it"
        except LldpError as error:
            self.trouble = f"{path}: {error}; let {COMMAND} write it"
        if now_seconds - self._written_seconds <= STALE_SECONDS:
            return self._neighbors
        if self.trouble is None:
            self.trouble = (
                f"{path}: was written more than {STALE_SECONDS / 60:.0f} minutes ago and is not "
                f"used; let {COMMAND} write it every minute"
            )
        return NOBODY

    def _read(self, now_seconds: float) -> bool:
        """Tell whether there was something new to read."""
        content = self._file.read_if_changed(now_seconds)
        if content is None:
            return False
        self._neighbors = parse_neighbors(content.data)
        age_seconds = max(self._wall_now_seconds() - content.modified_wall_seconds, 0.0)
        self._written_seconds = now_seconds - age_seconds
        return True


def in_a_thread(work: Callable[[], None]) -> None:
    """Do it meanwhile: a daemon that hangs must not hold up who reads other things."""
    threading.Thread(target=work, name=PROGRAM, daemon=True).start()


def find_program() -> str | None:
    """Give where the program is; None where it is not installed."""
    return shutil.which(PROGRAM) or shutil.which(PROGRAM, path=os.pathsep.join(SYSTEM_PATHS))


def ask_program(
    program: str,
    socket: Path,
    timeout_seconds: float = TIMEOUT_SECONDS,
    limit_bytes: int = MOST_BYTES,
) -> bytes:
    """Let the program ask the daemon. Raises LldpError or OSError."""
    arguments = [program, "-u", str(socket), "-f", "json", "show", "neighbors"]
    with subprocess.Popen(  # noqa: S603 - no shell, and the words are our own
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            return _answer(process, time.monotonic() + timeout_seconds, limit_bytes)
        except subprocess.TimeoutExpired as error:
            raise LldpError(f"gave no answer in {timeout_seconds:.0f} s") from error
        finally:
            process.kill()


def _answer(process: "subprocess.Popen[bytes]", end_seconds: float, limit_bytes: int) -> bytes:
    assert process.stdout is not None
    parts, size_bytes = [], 0
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(max(end_seconds - time.monotonic(), 0.0)):
            part = os.read(process.stdout.fileno(), READ_BYTES)
            if not part:
                break
            parts.append(part)
            size_bytes += len(part)
            if size_bytes > limit_bytes:
                raise LldpError(f"gave more than {limit_bytes} bytes")
    code = process.wait(max(end_seconds - time.monotonic(), 0.0))
    if code != 0:
        raise LldpError(f"ended with {code}")
    return b"".join(parts)


class LldpProgram:
    """The neighbors that lldpcli tells, asked once a minute where the daemon's socket is."""

    def __init__(
        self,
        socket: Path,
        find: Callable[[], str | None] = find_program,
        ask: Ask = ask_program,
        run_aside: Callable[[Callable[[], None]], None] = in_a_thread,
    ) -> None:
        self.is_given = False
        self.trouble: str | None = None
        self._socket = socket
        self._find = find
        self._ask = ask
        self._run_aside = run_aside
        self._due_seconds = float("-inf")
        self._is_asking = False
        # Replaced as a whole, by another thread.
        self._heard: tuple[Mapping[str, SwitchPort], float] = (NOBODY, float("-inf"))

    def neighbors(self, now_seconds: float) -> Mapping[str, SwitchPort]:
        if now_seconds >= self._due_seconds and not self._is_asking:
            self._due_seconds = now_seconds + ASK_SECONDS
            self._begin(now_seconds)
        neighbors, heard_seconds = self._heard
        return neighbors if now_seconds - heard_seconds <= STALE_SECONDS else NOBODY

    def _begin(self, now_seconds: float) -> None:
        self.is_given = _is_socket(self._socket)
        program = self._find() if self.is_given else None
        if program is None:
            self.trouble = self._no_program() if self.is_given else None
            return
        self._is_asking = True
        try:
            self._run_aside(lambda: self._hear(program, now_seconds))
        except RuntimeError as error:  # no more threads
            self._is_asking = False
            self.trouble = f"{PROGRAM} cannot be asked: {error}"

    def _hear(self, program: str, now_seconds: float) -> None:
        try:
            self._heard = (parse_neighbors(self._ask(program, self._socket)), now_seconds)
            self.trouble = None
        except OSError as error:
            self.trouble = f"{program}: cannot be run ({error.strerror}); install lldpd anew"
        except LldpError as error:
            self.trouble = (
                f"{program} -u {self._socket}: {error}; see whether lldpd runs, and whether the "
                "exporter may ask it, as root may"
            )
        finally:
            self._is_asking = False

    def _no_program(self) -> str:
        return (
            f"{self._socket} is there, but no program {PROGRAM} that the exporter may run; install "
            "it, run the exporter as root, or give --topology.lldp-file"
        )


def _is_socket(path: Path) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False

"""Real lldpd daemons in network namespaces: a node, a switch on two cables, and another node.

The first cable runs through a bridge on which the other node is heard as well.
"""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

PROGRAMS = ("ip", "lldpd", "lldpcli")
PATIENCE_SECONDS = 20.0
# Bridges keep LLDP to themselves unless this bit, of the last number of its address, is set.
FORWARD_LLDP = "0x4000"


def why_not() -> str | None:
    """Say why daemons cannot be run here; None where they can."""
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        return f"{', '.join(missing)} not installed (Debian: iproute2, lldpd)"
    if os.geteuid() != 0:
        return "network namespaces want root"
    name = f"probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    _ip("netns", "del", name)
    return None


@contextmanager
def node_on_a_switch() -> Iterator[Path]:
    """Give the socket of the node's daemon, whose interfaces are e0 and e1.

    The switch is "leaf-7" and routes; its port swp1 is behind e0, and swp2 behind e1.
    """
    with ExitStack() as stack:
        folder = stack.enter_context(_folder())
        node, leaf, other, hub = (
            stack.enter_context(_namespace(f"{name}-{os.getpid()}"))
            for name in ("node", "leaf", "other", "hub")
        )
        _ip("-n", hub, "link", "add", "br0", "type", "bridge", "group_fwd_mask", FORWARD_LLDP)
        _ip("-n", hub, "link", "set", "br0", "up")
        ends = ((node, "e0", "h0"), (leaf, "swp1", "h1"), (other, "eth0", "h2"))
        for namespace, interface, hub_port in ends:
            _cable(namespace, interface, hub, hub_port)
            _ip("-n", hub, "link", "set", hub_port, "master", "br0")
        _cable(node, "e1", leaf, "swp2")
        _run("ip", "netns", "exec", leaf, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        sockets = [
            stack.enter_context(_daemon(namespace, folder)) for namespace in (node, leaf, other)
        ]
        control(sockets[1], "configure", "system", "hostname", "leaf-7")
        control(sockets[1], "configure", "lldp", "portidsubtype", "ifname")
        for socket in sockets[1:]:
            control(socket, "update")
        yield sockets[0]


@contextmanager
def lonely_node() -> Iterator[Path]:
    """Give the socket of a daemon that hears nobody."""
    name = f"lonely-{os.getpid()}"
    with _folder() as folder, _namespace(name), _daemon(name, folder) as socket:
        yield socket


def control(socket: Path, *words: str) -> bytes:
    return _run("lldpcli", "-u", str(socket), *words)


def wait_for(is_so: Callable[[], bool]) -> None:
    """Wait until something is so, which daemons take a second or two for."""
    end_seconds = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < end_seconds, "not in time"
        time.sleep(0.05)


@contextmanager
def _folder() -> Iterator[Path]:
    """Make one that all may enter: Debian's lldpcli runs as a user of its own."""
    with tempfile.TemporaryDirectory(prefix="lldpd-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def _cable(namespace: str, interface: str, peer_namespace: str, peer: str) -> None:
    ends = ("type", "veth", "peer", "name", peer, "netns", peer_namespace)
    _ip("link", "add", interface, "netns", namespace, *ends)
    _ip("-n", namespace, "link", "set", interface, "up")
    _ip("-n", peer_namespace, "link", "set", peer, "up")


@contextmanager
def _namespace(name: str) -> Iterator[str]:
    _ip("netns", "add", name)
    try:
        yield name
    finally:
        _ip("netns", "del", name)


@contextmanager
def _daemon(namespace: str, folder: Path) -> Iterator[Path]:
    socket = folder / f"{namespace}.socket"
    arguments = ["ip", "netns", "exec", namespace, "lldpd", "-d", "-u", str(socket)]
    with (folder / f"{namespace}.log").open("wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log)
    try:
        wait_for(lambda: socket.exists() or process.poll() is not None)
        assert process.poll() is None, (folder / f"{namespace}.log").read_text()
        yield socket
    finally:
        process.terminate()
        process.wait(PATIENCE_SECONDS)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> bytes:
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE_SECONDS)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr.decode(errors='replace')}"
    return done.stdout

"""A network namespace with virtual interfaces, which is gone when its test is."""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

CLONE_NEWNET = 0x40000000
OWN_NAMESPACE = Path("/proc/thread-self/ns/net")
# Tells that it stands in the namespace, and holds it until its input ends: at the latest with us.
HOLDER = ("unshare", "--net", "sh", "-c", "echo ready; exec cat")
# With IPv6, interfaces send by themselves.
WITHOUT_IPV6 = "cd /proc/sys/net/ipv6/conf/default && echo 1 >disable_ipv6 || true"


class NetworkNamespace:
    """A namespace, by the process that holds it. Make one with `network_namespace`."""

    def __init__(self, holder_pid: int) -> None:
        self.holder_pid = holder_pid

    @property
    def path(self) -> Path:
        return Path(f"/proc/{self.holder_pid}/ns/net")

    def run(self, *command: str | bytes) -> str:
        """Run a program inside; give what it prints. One that fails raises, with its complaint."""
        inside = ("nsenter", f"--net={self.path}", *command)
        done = subprocess.run(inside, capture_output=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command!r}: {os.fsdecode(done.stderr).strip()}")
        return os.fsdecode(done.stdout)

    def add_pair(self, name: str, peer: str, queue_count: int = 1) -> None:
        """Add two interfaces that are each other's peer, up, and silent unless somebody sends."""
        self.run("sh", "-c", WITHOUT_IPV6)
        queues = ("numrxqueues", str(queue_count), "numtxqueues", str(queue_count))
        self.run(
            *("ip", "link", "add", os.fsencode(name), *queues),
            *("type", "veth", "peer", "name", os.fsencode(peer), *queues),
        )
        for end in (name, peer):
            self.run("ip", "link", "set", os.fsencode(end), "up")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Put this thread into the namespace. A socket that is made inside stays there."""
        outside = os.open(OWN_NAMESPACE, os.O_RDONLY | os.O_CLOEXEC)
        try:
            inside = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(inside)
            finally:
                os.close(inside)
            try:
                yield
            finally:
                _enter(outside)
        finally:
            os.close(outside)


@contextmanager
def network_namespace() -> Iterator[NetworkNamespace]:
    """Make a namespace without interfaces but its loopback; skip the test where none can be."""
    _skip_without(("unshare", "nsenter", "ip"))
    holder = subprocess.Popen(
        HOLDER, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stderr is not None
    try:
        if holder.stdout.readline() != "ready\n":
            pytest.skip(f"no network namespace can be made here: {holder.stderr.read().strip()}")
        yield NetworkNamespace(holder.pid)
    finally:
        holder.stdin.close()
        holder.wait()
        holder.stdout.close()
        holder.stderr.close()


@contextmanager
def namespace_with_pair(name: str, peer: str, queue_count: int = 1) -> Iterator[NetworkNamespace]:
    """Make a namespace with one pair of interfaces; skip the test where none can be."""
    with network_namespace() as namespace:
        try:
            namespace.add_pair(name, peer, queue_count)
        except RuntimeError as error:
            if "Unknown device type" not in str(error):
                raise
            pytest.skip(f"no pair of virtual interfaces can be made here: {error}")
        yield namespace


def _skip_without(programs: Sequence[str]) -> None:
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"no network namespace can be made without {', '.join(missing)}")
    if os.geteuid() != 0:
        pytest.skip("only root may make a network namespace and step into it")


def _enter(descriptor: int) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot step into a network namespace: {os.strerror(number)}")

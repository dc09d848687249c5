"""What does not come back is waited for so long, and hides nothing else."""

import threading
import time
from collections.abc import Iterator

import pytest
from support.interfaces import Interface, Interfaces
from support.sysfs_tree import SysfsTree

from rightslice.exporter.check.all_checks import CHECKS, findings_of
from rightslice.exporter.check.finding import NODE, OK, UNKNOWN, WARNING, Finding
from rightslice.exporter.check.kernel import Kernel, real_kernel
from rightslice.exporter.check.node import Node
from rightslice.exporter.check.patience import EACH_SECONDS, WHOLE_SECONDS, Patience
from rightslice.exporter.host.net.ethtool import Ethtool

SHORT_SECONDS, LONG_SECONDS = 0.05, 10.0


@pytest.fixture
def is_over() -> Iterator[threading.Event]:
    """What hangs waits for this; it is set at the end of the test."""
    is_over = threading.Event()
    yield is_over
    is_over.set()


def working(_: Node) -> Iterator[Finding]:
    yield Finding("works", NODE, OK, "fine")


def test_a_check_gets_five_seconds_and_all_of_them_thirty() -> None:
    assert (EACH_SECONDS, WHOLE_SECONDS) == (5, 30)


def test_what_a_check_said_before_it_hangs_is_kept_and_the_next_is_run(
    tree: SysfsTree, is_over: threading.Event
) -> None:
    def hanging(_: Node) -> Iterator[Finding]:
        yield Finding("hangs", NODE, WARNING, "first")
        is_over.wait(LONG_SECONDS)
        yield Finding("hangs", NODE, WARNING, "too late")

    findings = findings_of(
        tree.node(), {"hangs": hanging, "works": working}, Patience(SHORT_SECONDS, LONG_SECONDS)
    )

    assert [(each.check, each.level) for each in findings] == [
        ("hangs", WARNING),
        ("hangs", UNKNOWN),
        ("works", OK),
    ]
    assert findings[1].text.startswith("this check did not come back within 0.05 s: the kernel")


def test_the_whole_ends_in_its_time_however_many_hang(
    tree: SysfsTree, is_over: threading.Event
) -> None:
    def hanging(_: Node) -> Iterator[Finding]:
        is_over.wait(LONG_SECONDS)
        yield from ()

    begun_seconds = time.monotonic()
    findings = findings_of(
        tree.node(), {f"check {number}": hanging for number in range(50)}, Patience(0.1, 0.25)
    )

    assert time.monotonic() - begun_seconds < LONG_SECONDS / 2
    texts = [each.text for each in findings]
    assert {each.level for each in findings} == {UNKNOWN}
    # Three at most are begun.
    assert texts.count("this check was not begun: what came before took 0.25 s") >= 47


def test_an_error_is_raised_where_the_work_is_waited_for() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        Patience().wait_for(failing, "fails")


class Hanging(Interfaces):
    """An interface that answers only the first time, and late."""

    def __init__(self, is_over: threading.Event) -> None:
        super().__init__({"eth2": Interface()})
        self._is_over = is_over

    def call(self, device: bytes, request: bytes) -> memoryview:
        self._is_over.wait(LONG_SECONDS)
        return super().call(device, request)

    def kernel(self) -> Kernel:
        return Kernel(Ethtool(self), self.enabled, Interfaces(self.by_name).kernel)


def test_after_a_hang_the_kernel_is_asked_anew(tree: SysfsTree, is_over: threading.Event) -> None:
    tree.add_nic(netdev="eth2")
    checks = {name: CHECKS[name] for name in ("pfc_watchdog", "link_pause")}

    findings = findings_of(
        tree.node(Hanging(is_over).kernel()), checks, Patience(SHORT_SECONDS, LONG_SECONDS)
    )

    assert [(each.check, each.subject) for each in findings if "come back" in each.text] == [
        ("pfc_watchdog", NODE)
    ]
    assert [each.check for each in findings if each.level == OK] == ["link_pause"]


def test_each_kernel_has_memory_and_sockets_of_its_own() -> None:
    with real_kernel() as kernel:
        assert kernel.anew is not None
        other = kernel.anew()

        assert other.ethtool is not kernel.ethtool
        assert other.enabled != kernel.enabled
        assert other.anew is not None

"""The kernel log from the start on: nothing that is old, nothing that a program wrote."""

from pathlib import Path

from rightslice.exporter.host.clock import ManualClock
from rightslice.exporter.host.kernel_log import KernelLog
from rightslice.exporter.host.live_kernel_log import LiveKernelLog

START_SECONDS = 1_000.0


def append(path: Path, sequence: int, seconds: float, text: str, facility: int = 0) -> None:
    with path.open("a") as file:
        file.write(f"{facility * 8 + 3},{sequence},{int(seconds * 1e6)},-;{text}\n")


def test_what_was_written_before_the_start_is_not_told(tmp_path: Path) -> None:
    path, clock = tmp_path / "kmsg", ManualClock(START_SECONDS).clock()
    log = LiveKernelLog(KernelLog(path, clock.monotonic_seconds), clock)
    assert not log.is_readable
    append(path, 1, START_SECONDS - 5, "old")
    append(path, 2, START_SECONDS + 1, "new")
    append(path, 3, START_SECONDS + 1, "of a program", facility=1)

    assert [record.text for record in log.read_new()] == ["new"]
    assert log.is_readable
    append(path, 4, START_SECONDS - 5, "late, of a clock that drifts")
    assert [record.text for record in log.read_new()] == ["late, of a clock that drifts"]
    log.close()

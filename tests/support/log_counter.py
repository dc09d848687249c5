"""A process that follows one log and counts its lines, as the exporter does: save, then count."""

import sys
import time
from pathlib import Path

from rightslice.exporter.host.oom.log_format import CriOrDocker
from rightslice.exporter.host.oom.log_tail import LogTail
from rightslice.exporter.host.oom.positions import PositionFile


def count(log: Path, state_path: Path, counted: Path, stop: Path) -> None:
    """Add the number of each line to a file, until told to stop and nothing more is found."""
    state = PositionFile(state_path)
    saved = state.load()
    tail = LogTail(saved.wall_seconds if saved else 0.0, saved.positions if saved else {})
    tail.follow({log: CriOrDocker})
    with counted.open("ab", buffering=0) as file:
        while True:
            is_stopped = stop.exists()
            found = [message.text for _, message in tail.read(lambda chunk: True)]
            is_last = is_stopped and not found
            if is_last:
                found += [message.text for _, message in tail.finish()]
            assert state.save(tail.positions(), is_idle=not found)
            file.write("".join(f"{text.rpartition(' ')[2]}\n" for text in found).encode())
            if is_last:
                return
            time.sleep(0.005)


if __name__ == "__main__":
    count(*map(Path, sys.argv[1:]))

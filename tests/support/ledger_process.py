"""A process of its own around a ledger: python -m support.ledger_process ACTION FILE ...

Actions: hold, write, churn, fill, full, told.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from rightslice.ledger.backup import back_up
from rightslice.ledger.ledger import Batch, FeederState, Ledger, LedgerError
from rightslice.ledger.parquet import export_parquet
from rightslice.ledger.retention import drop_hours
from support.usage import START, at_hour, card_hour, workload_hour

TESTS = Path(__file__).resolve().parent.parent
FEEDER = "stream"
CARDS = tuple(f"GPU-{number}" for number in range(16))
FOR_EVER = timedelta(days=36_500)


def command(action: str, file: Path, *more: str) -> list[str]:
    """Give the command line of an action; run it in the folder of the tests."""
    return [sys.executable, "-m", "support.ledger_process", action, str(file), *more]


def start(action: str, file: Path, *more: str) -> subprocess.Popen[str]:
    """Start an action; its lines can be read, and closing its input ends `hold`."""
    return subprocess.Popen(
        command(action, file, *more),
        cwd=TESTS,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def put_hour(ledger: Ledger, index: int) -> None:
    """Put one hour of all cards and their pods, and how far the feeder has come."""
    batch = Batch(
        [card_hour(index, uuid) for uuid in CARDS],
        [workload_hour(index=index, uuid=uuid, pod=f"pod-of-{uuid}") for uuid in CARDS],
    )
    ledger.replace_hours(batch, FEEDER, FeederState(at_hour(index + 1), {"hours": index + 1}))


def hours_of_cards(ledger: Ledger) -> list[int]:
    """Count each card's hours."""
    return [usage.hour_count for usage in ledger.card_usage(START, START + FOR_EVER)]


def hours_of_feeder(ledger: Ledger) -> int:
    """Tell how many hours the feeder believes to have written."""
    state = ledger.feeder_state(FEEDER)
    return state.state["hours"] if state else 0


def hold(file: Path, api_url: str = "") -> None:
    """Keep the file until the input ends, announced where an address is given."""
    ledger = Ledger.open(file)
    if api_url:
        ledger.announce(api_url)
    print("open", flush=True)  # noqa: T201 - the test waits for this line
    sys.stdin.read()
    ledger.close()


def write(file: Path) -> None:
    """Write hours for ever; tell of each when it is written."""
    ledger = Ledger.open(file)
    for index in count():
        put_hour(ledger, index)
        print(index, flush=True)  # noqa: T201 - the test counts these lines


def churn(file: Path, folder: str) -> None:
    """Go on writing hours, and do all else that is ever done; tell of each hour when it is there.

    Hours are told again; days are summed, and their hours dropped after two more days; backups and
    Parquet are written into the folder.
    """
    ledger = Ledger.open(file)
    for index in count(hours_of_feeder(ledger)):
        put_hour(ledger, index)
        print(index, flush=True)  # noqa: T201 - the test counts these lines
        if index % 5 == 0 and index:
            put_hour(ledger, index - 1)
            put_hour(ledger, index)
        if index % 6 == 0:
            ledger.roll_up(at_hour(index))
        if index % 12 == 0:
            list(drop_hours(ledger, at_hour(index - index % 24 - 48)))
        if index % 7 == 0:
            back_up(ledger, Path(folder) / "copy.duckdb")
        if index % 9 == 0:
            export_parquet(ledger, Path(folder) / "parquet")


def fill(file: Path) -> None:
    """Write hours until the ledger refuses; tell what is there then, and after reopening."""
    ledger = Ledger.open(file)
    written, refusal = 0, ""
    while not refusal:
        try:
            put_hour(ledger, written)
            written += 1
        except LedgerError as error:
            refusal = str(error)
    ledger.close()
    again = Ledger.open(file)
    report = {
        "refusal": refusal,
        "written": written,
        "hours_of_cards": hours_of_cards(again),
        "hours_of_feeder": hours_of_feeder(again),
    }
    print(json.dumps(report))  # noqa: T201 - the test reads this line


def full(file: Path, work: str) -> None:
    """Do some work on a full disk, and again when there is room; tell what came of both."""
    ledger = Ledger.open(file)
    for index in range(30):
        put_hour(ledger, index)
    works: dict[str, Callable[[], object]] = {
        "roll_up": lambda: ledger.roll_up(at_hour(30)),
        "drop": lambda: list(drop_hours(ledger, at_hour(24))),
        "backup": lambda: back_up(ledger, file.with_name("copy.duckdb")),
        "compact": lambda: back_up(ledger, file.with_name("copy.duckdb"), compact=True),
        "export": lambda: export_parquet(ledger, file.with_name("parquet")),
    }
    if work == "drop":
        ledger.roll_up(at_hour(30))
    ballast = file.with_name("ballast")
    _use_up_the_disk(ballast)
    refusal = ""
    try:
        works[work]()
    except LedgerError as error:
        refusal = str(error)
    left = sorted(str(path.relative_to(file.parent)) for path in file.parent.rglob("*.*"))
    ballast.unlink()
    works[work]()
    put_hour(ledger, 30)
    ledger.close()
    again = Ledger.open(file)
    report = {"refusal": refusal, "left": left, "hours_of_cards": hours_of_cards(again)}
    print(json.dumps(report))  # noqa: T201 - the test reads this line


def _use_up_the_disk(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as writer:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while writer.write(bytes(size)) == size:
                    pass
            except OSError:
                continue


def told(file: Path, first_day: str) -> None:
    """Write three days, sum them and export them; tell of the days and months that came of it."""
    ledger = Ledger.open(file)
    start = datetime.fromisoformat(first_day).replace(tzinfo=UTC)
    hours = [start + timedelta(hours=index) for index in range(24 * 3)]
    ledger.replace_hours(Batch([replace(card_hour(), hour=hour) for hour in hours]))
    ledger.roll_up(start + timedelta(days=3))
    days = ledger.read("read", "SELECT day::VARCHAR, hour_count FROM card_day ORDER BY day")
    export_parquet(ledger, file.with_name("parquet"))
    ledger.close()
    report = {
        "zone": os.environ.get("TZ", ""),
        "days": days,
        "months": sorted({path.name for path in file.parent.rglob("month=*")}),
    }
    print(json.dumps(report))  # noqa: T201 - the test reads this line


ACTIONS: dict[str, Callable[..., None]] = {
    "hold": hold,
    "write": write,
    "churn": churn,
    "fill": fill,
    "full": full,
    "told": told,
}

if __name__ == "__main__":
    ACTIONS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])

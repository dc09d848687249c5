"""A process of its own around a ledger: python -m support.ledger_process hold|write|fill FILE."""

import json
import subprocess
import sys
from datetime import timedelta
from itertools import count
from pathlib import Path

from rightslice.ledger.ledger import Batch, FeederState, Ledger, LedgerError
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


if __name__ == "__main__":
    {"hold": hold, "write": write, "fill": fill}[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])

"""lldpd's neighbors from a file, from the program, and from real daemons."""

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.lldpd import control, lonely_node, node_on_a_switch, wait_for, why_not

from rightslice.exporter.host.net.lldp import LldpError, SwitchPort, parse_neighbors
from rightslice.exporter.host.net.lldpd import LldpFile, LldpProgram, ask_program, find_program

LEAF = SwitchPort("leaf-7", "swp1")


def answer(switch: str = "leaf-7") -> bytes:
    interface = {
        "via": "LLDP",
        "chassis": {switch: {"id": {"type": "mac", "value": "02:00:00:00:00:07"}}},
        "port": {"id": {"type": "ifname", "value": "swp1"}},
    }
    return json.dumps({"lldp": {"interface": {"eth0": interface}}}).encode()


@pytest.fixture
def socket_path(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "lldpd.socket"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        yield path


def at_once(work: Callable[[], None]) -> None:
    work()


def written(path: Path, data: bytes, wall_seconds: float) -> Path:
    path.write_bytes(data)
    os.utime(path, (wall_seconds, wall_seconds))
    return path


def test_a_file_is_used_for_ten_minutes_after_it_was_written(tmp_path: Path) -> None:
    path = written(tmp_path / "lldp.json", answer(), wall_seconds=1_000_000)
    source = LldpFile(path, wall_now_seconds=lambda: 1_000_500)

    assert source.neighbors(50.0) == {"eth0": LEAF}
    assert source.trouble is None

    assert source.neighbors(151.0) == {}
    assert source.trouble is not None
    assert "more than 10 minutes ago" in source.trouble

    written(path, answer("leaf-8"), wall_seconds=1_000_501)
    assert source.neighbors(200.0) == {"eth0": SwitchPort("leaf-8", "swp1")}
    assert source.trouble is None


def test_a_file_from_the_future_is_as_good_as_a_new_one(tmp_path: Path) -> None:
    path = written(tmp_path / "lldp.json", answer(), wall_seconds=2_000_000)
    source = LldpFile(path, wall_now_seconds=lambda: 1_000_000)

    assert source.neighbors(0.0) == {"eth0": LEAF}
    assert source.neighbors(601.0) == {}


def test_a_bad_file_says_so_and_what_was_heard_before_counts(tmp_path: Path) -> None:
    path = written(tmp_path / "lldp.json", answer(), wall_seconds=1_000_000)
    source = LldpFile(path, wall_now_seconds=lambda: 1_000_000)
    source.neighbors(0.0)

    written(path, answer()[:-5], wall_seconds=1_000_060)
    assert source.neighbors(60.0) == {"eth0": LEAF}
    assert source.trouble is not None
    assert str(path) in source.trouble
    assert "is no JSON" in source.trouble

    written(path, answer(), wall_seconds=1_000_120)
    source.neighbors(120.0)
    assert source.trouble is None


def test_a_file_that_is_away_for_a_while_is_told_until_it_is_back(tmp_path: Path) -> None:
    path = written(tmp_path / "lldp.json", answer(), wall_seconds=1_000_000)
    source = LldpFile(path, wall_now_seconds=lambda: 1_000_000)
    source.neighbors(0.0)

    away = path.rename(tmp_path / "away")
    assert source.neighbors(60.0) == {"eth0": LEAF}
    assert source.trouble is not None
    assert "No such file" in source.trouble
    assert "lldpcli -f json show neighbors" in source.trouble

    away.rename(path)
    assert source.neighbors(120.0) == {"eth0": LEAF}
    assert source.trouble is None


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["FIFO", "folder"])
def test_what_is_no_file_is_not_waited_for(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / "x")
    source = LldpFile(tmp_path / "x")

    assert source.neighbors(0.0) == {}
    assert source.trouble is not None


def test_without_the_daemons_socket_there_is_nothing_to_say(tmp_path: Path) -> None:
    source = LldpProgram(tmp_path / "none", find=lambda: "/bin/false", run_aside=at_once)

    assert source.neighbors(0.0) == {}
    assert not source.is_given
    assert source.trouble is None


def test_a_socket_without_the_program_says_what_to_do(socket_path: Path) -> None:
    source = LldpProgram(socket_path, find=lambda: None, run_aside=at_once)

    assert source.neighbors(0.0) == {}
    assert source.is_given
    assert source.trouble is not None
    assert "--topology.lldp-file" in source.trouble


def test_the_program_is_asked_once_a_minute_and_believed_for_ten(socket_path: Path) -> None:
    answers: list[bytes | Exception] = [answer(), LldpError("ended with 1"), answer("leaf-8")]
    asked: list[tuple[str, Path]] = []

    def ask(program: str, path: Path) -> bytes:
        asked.append((program, path))
        given = answers.pop(0) if answers else LldpError("ended with 1")
        if isinstance(given, Exception):
            raise given
        return given

    source = LldpProgram(socket_path, find=lambda: "lldpcli", ask=ask, run_aside=at_once)

    assert source.neighbors(0.0) == {"eth0": LEAF}
    assert source.neighbors(59.0) == {"eth0": LEAF}
    assert asked == [("lldpcli", socket_path)]

    assert source.neighbors(60.0) == {"eth0": LEAF}
    assert source.trouble is not None
    assert "ended with 1; see whether lldpd runs" in source.trouble

    assert source.neighbors(120.0) == {"eth0": SwitchPort("leaf-8", "swp1")}
    assert source.trouble is None
    assert source.neighbors(720.0) != {}
    assert source.neighbors(721.0) == {}


def test_a_program_that_hangs_holds_up_nobody_and_is_not_asked_twice(socket_path: Path) -> None:
    begun: list[Callable[[], None]] = []
    source = LldpProgram(
        socket_path, find=lambda: "lldpcli", ask=lambda *_: answer(), run_aside=begun.append
    )

    assert source.neighbors(0.0) == {}
    assert source.neighbors(600.0) == {}
    assert len(begun) == 1

    begun[0]()
    assert source.neighbors(600.0) == {"eth0": LEAF}
    assert len(begun) == 2


def test_where_no_thread_can_be_had_the_next_minute_tries_again(socket_path: Path) -> None:
    def refuse(_: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    source = LldpProgram(socket_path, find=lambda: "lldpcli", run_aside=refuse)

    assert source.neighbors(0.0) == {}
    assert source.trouble == "lldpcli cannot be asked: can't start new thread"


def program(folder: Path, script: str) -> str:
    path = folder / "lldpcli"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_the_program_gets_its_words_one_by_one(tmp_path: Path) -> None:
    words = ask_program(program(tmp_path, 'printf "%s|" "$@"'), Path("/a b;c"))

    assert words == b"-u|/a b;c|-f|json|show|neighbors|"


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        pytest.param("exit 1", "ended with 1", id="failure"),
        pytest.param("exec sleep 60", "gave no answer in 0 s", id="silence"),
        pytest.param("exec >&-; exec sleep 60", "gave no answer", id="no end"),
        pytest.param("exec yes", "gave more than 1000 bytes", id="flood"),
    ],
)
def test_a_program_that_does_not_answer_is_ended(script: str, reason: str, tmp_path: Path) -> None:
    begun_seconds = time.monotonic()

    with pytest.raises(LldpError, match=reason):
        ask_program(program(tmp_path, script), Path("/x"), timeout_seconds=0.3, limit_bytes=1000)

    assert time.monotonic() - begun_seconds < 10


def test_a_program_that_cannot_be_run_is_told(tmp_path: Path, socket_path: Path) -> None:
    source = LldpProgram(socket_path, find=lambda: str(tmp_path / "gone"), run_aside=at_once)

    source.neighbors(0.0)

    assert source.trouble is not None
    assert "cannot be run (No such file or directory)" in source.trouble


REASON = why_not()
real = pytest.mark.skipif(REASON is not None, reason=str(REASON))


@pytest.mark.integration
@real
def test_real_daemons_tell_the_switch_in_both_formats() -> None:
    ends = {"e0": LEAF, "e1": SwitchPort("leaf-7", "swp2")}
    found = find_program()
    assert found is not None

    with node_on_a_switch() as path:
        # The other node is heard on e0, and as no switch it does not count.
        wait_for(lambda: control(path, "show", "neighbors").count(b"SysName") == 3)
        wait_for(lambda: parse_neighbors(ask_program(found, path)) == ends)
        assert ask_program(found, path).count(b'"e0"') == 2

        everywhere = control(path, "-f", "json0", "show", "neighbors")
        alone = control(path, "-f", "json", "show", "neighbors", "ports", "e1")
        source = LldpProgram(path)
        wait_for(lambda: source.neighbors(0.0) == ends)

    assert parse_neighbors(everywhere) == ends
    assert isinstance(json.loads(alone)["lldp"]["interface"], dict)  # one is not in a list
    assert parse_neighbors(alone) == {"e1": ends["e1"]}
    assert source.trouble is None


@pytest.mark.integration
@real
def test_a_real_daemon_that_hears_nobody_and_one_that_ended() -> None:
    found = find_program()
    assert found is not None

    with lonely_node() as path:
        assert parse_neighbors(ask_program(found, path)) == {}

    with pytest.raises(LldpError, match="ended with 1"):
        ask_program(found, path)

"""The state file: kept over restarts, never in the way."""

import json
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from rightslice.exporter.host.oom import positions
from rightslice.exporter.host.oom.log_position import Fingerprint, Position
from rightslice.exporter.host.oom.positions import PositionFile

PATH = Path("/var/log/pods/a_b_c/x/0.log")
POSITION = Position(1, 2, 300, Fingerprint.of(b"x" * 64), Fingerprint.of(b"y" * 64))
DIGEST = POSITION.head.digest


STATE_START = b'{"format":"rightslice log positions"'


def state_of(*rows: list[object], saved_wall_seconds: str = "1") -> bytes:
    head = '{"format":"rightslice log positions","version":1,"saved_wall_seconds":'
    table = json.dumps({f"/{number}": row for number, row in enumerate(rows)})
    return f'{head}{saved_wall_seconds},"positions":{table}}}'.encode()


def test_saved_positions_are_loaded(tmp_path: Path) -> None:
    odd = Path("/var/log/\udcff \n\u00e4.log")
    state = PositionFile(tmp_path / "state.json", wall_now_seconds=lambda: 12.5)
    assert state.load() is None
    assert state.save({PATH: POSITION, odd: POSITION})
    saved = PositionFile(tmp_path / "state.json").load()
    assert saved is not None
    assert (saved.wall_seconds, saved.positions) == (12.5, {PATH: POSITION, odd: POSITION})
    assert {path.name for path in tmp_path.iterdir()} == {"state.json", ".state.json.lock"}
    assert (state.warning, state.unavailable_reason) == (None, None)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(STATE_START, id="cut"),
        pytest.param(STATE_START + b"\xff\x00", id="binary"),
        pytest.param(STATE_START + b',"a":' + b"[" * 100_000, id="deep"),
        pytest.param(STATE_START + b',"version":2}', id="version to come"),
        pytest.param(
            b'{"format":"rightslice log positions","version":1,"saved_wall_seconds":1,'
            b'"positions":{"/a":[1,2,-3,4,"",5,""]}}',
            id="below zero",
        ),
        pytest.param(state_of([1, 2, 300, 10**13, DIGEST, 64, DIGEST]), id="large fingerprint"),
        pytest.param(state_of([1, 2, 300, 64, DIGEST, 65, DIGEST]), id="fingerprint of 65 bytes"),
        pytest.param(state_of([1, 2, 3, 64, DIGEST, 4, DIGEST]), id="more than is before"),
        pytest.param(state_of([1, 2, 2**63, 64, DIGEST, 64, DIGEST]), id="absurd offset"),
        pytest.param(state_of([1, 2**64, 300, 64, DIGEST, 64, DIGEST]), id="absurd inode"),
        pytest.param(state_of([1, True, 300, 64, DIGEST, 64, DIGEST]), id="no number"),
        pytest.param(state_of([1, 2, 300, 64, 5, 64, DIGEST]), id="no digest"),
        pytest.param(state_of(saved_wall_seconds="-1"), id="time below zero"),
        pytest.param(state_of(saved_wall_seconds='"1e9"'), id="time in quotes"),
        pytest.param(state_of(saved_wall_seconds="1" + "0" * 400), id="time without end"),
    ],
)
def test_a_damaged_state_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    state = PositionFile(path)
    assert state.load() is None
    assert state.warning is not None
    assert str(path) in state.warning
    assert state.save({PATH: POSITION})
    assert (tmp_path / "state.json.broken").read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"\xff\x00", b"[]", b'{"a": 1}', b"key: value\n", b" "], ids=repr
)
def test_what_is_not_ours_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "settings.yml"
    path.write_bytes(content)
    state = PositionFile(path)
    assert state.load() is None
    assert not state.save({PATH: POSITION})
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["settings.yml"]
    assert state.unavailable_reason == (
        f"{path} is not a state of this program, and is left as it is, so that after a restart log "
        "lines of the time between are not seen: name another file, or remove it"
    )
    path.unlink()
    assert state.save({PATH: POSITION})


@pytest.mark.parametrize("content", [b"", bytes(512)], ids=["empty", "of a full disk"])
def test_an_empty_file_is_written_to(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(content)
    state = PositionFile(path)
    assert state.load() is None
    assert state.warning is None
    assert state.save({PATH: POSITION})


def test_a_device_a_pipe_and_a_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "null").symlink_to("/dev/null")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "null", tmp_path / "pipe", tmp_path / "folder"):
        kind = path.stat().st_mode
        state = PositionFile(path)
        assert state.load() is None
        assert not state.save({PATH: POSITION})
        assert "is not a regular file" in (state.unavailable_reason or "")
        assert path.stat().st_mode == kind
    assert len(list(tmp_path.iterdir())) == 3


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "state.json").symlink_to("kept/state.json")
    assert PositionFile(tmp_path / "state.json").save({PATH: POSITION})
    assert (tmp_path / "state.json").is_symlink()
    assert PositionFile(tmp_path / "kept" / "state.json").load() is not None


def test_two_programs_do_not_keep_one_state(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    first, second = PositionFile(path), PositionFile(path)
    assert first.save({PATH: POSITION})
    assert not second.save({})
    assert "is another exporter's" in (second.unavailable_reason or "")
    saved = second.load()
    assert saved is not None
    assert saved.positions == {PATH: POSITION}
    first.close()
    assert second.save({})
    assert second.unavailable_reason is None


def test_too_large_a_file_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state.json"
    assert PositionFile(path).save({PATH: POSITION})
    monkeypatch.setattr(positions, "SIZE_LIMIT_BYTES", 10)
    assert PositionFile(path).load() is None


def test_number_of_positions_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "POSITIONS_LIMIT", 3)
    path = tmp_path / "state.json"
    assert PositionFile(path).save({Path(f"/{number}"): POSITION for number in range(5)})
    assert len(json.loads(path.read_bytes())["positions"]) == 3


def test_missing_directory_is_told_until_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "state.json"
    state = PositionFile(path)
    assert not state.save({PATH: POSITION})
    assert state.unavailable_reason == (
        f"{path} cannot be written (No such file or directory), so that after a restart log lines "
        "of the time between are not seen: let its directory exist and be writable"
    )
    path.parent.mkdir()
    assert state.save({PATH: POSITION})
    assert state.unavailable_reason is None


def test_state_that_cannot_be_replaced_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    state = PositionFile(path)
    assert state.save({PATH: POSITION})
    (tmp_path / ".state.json.new").mkdir()  # in the way of the new file
    assert not state.save({})
    assert not path.exists()


def test_path_below_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    state = PositionFile(tmp_path / "file" / "state.json")
    assert state.load() is None
    assert not state.save({})
    assert state.unavailable_reason is not None


def test_idle_saves_are_rare(tmp_path: Path) -> None:
    now = [0.0]
    path = tmp_path / "state.json"
    state = PositionFile(path, now_seconds=lambda: now[0])
    assert state.save({}, is_idle=True)
    assert state.save({PATH: POSITION}, is_idle=True)
    saved = state.load()
    assert saved is not None
    assert saved.positions == {}
    now[0] += positions.IDLE_SAVE_SECONDS
    assert state.save({PATH: POSITION}, is_idle=True)
    saved = state.load()
    assert saved is not None
    assert saved.positions == {PATH: POSITION}


def test_save_of_a_hundred_positions_is_cheap(tmp_path: Path) -> None:
    state = PositionFile(tmp_path / "state.json")
    hundred = {Path(f"{PATH}.{number}"): POSITION for number in range(100)}
    before_seconds = time.process_time()
    for _ in range(20):
        assert state.save(hundred)
    assert (time.process_time() - before_seconds) / 20 < 0.01


@pytest.mark.parametrize("saved_wall_seconds", ["NaN", "Infinity", "-Infinity", "1e400", "1010"])
def test_time_that_makes_no_sense_is_taken_for_now(tmp_path: Path, saved_wall_seconds: str) -> None:
    path = tmp_path / "state.json"
    row: list[object] = [1, 2, 300, 64, DIGEST, 64, POSITION.tail.digest]
    path.write_bytes(state_of(row, saved_wall_seconds=saved_wall_seconds))
    state = PositionFile(path, wall_now_seconds=lambda: 1000.0)
    saved = state.load()
    assert saved is not None
    assert (saved.wall_seconds, saved.positions) == (1000.0, {Path("/0"): POSITION})
    assert "a time that is still to come" in (state.warning or "")


def test_time_a_moment_ahead_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(state_of(saved_wall_seconds="1003"))
    state = PositionFile(path, wall_now_seconds=lambda: 1000.0)
    saved = state.load()
    assert saved is not None
    assert (saved.wall_seconds, state.warning) == (1003.0, None)


def test_large_inodes_are_saved_and_loaded(tmp_path: Path) -> None:
    position = replace(POSITION, inode=2**64 - 1)
    assert PositionFile(tmp_path / "state.json").save({PATH: position})
    saved = PositionFile(tmp_path / "state.json").load()
    assert saved is not None
    assert saved.positions == {PATH: position}

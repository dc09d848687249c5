"""Who was on which card lately, and with how much memory."""

from typing import Any

import pytest

from rightslice.exporter.host.owners.workload import Workload
from rightslice.exporter.host.whereabouts import (
    REMEMBERED_SECONDS,
    WINDOW_SECONDS,
    Memory,
    Stay,
    Whereabouts,
)

CHAT, TRAIN = Workload("pod", "team", "chat", "main"), Workload("pod", "team", "train", "main")


def stay(*process_ids: int, workload: Workload = CHAT, uuid: str = "GPU-1", **changes: Any) -> Stay:
    settings: dict[str, Any] = {"used_bytes": 10, "room_bytes": 100, "room_used_bytes": 10}
    return Stay(workload, uuid, "", frozenset(process_ids), **(settings | changes))


def test_the_most_memory_of_the_last_seconds_is_told_with_the_card() -> None:
    places = Whereabouts()
    for second, used in enumerate((10, 90, 20)):
        places.note("GPU-1", [stay(11, used_bytes=used)], second)

    assert places.memory_of(CHAT, 2) == Memory("GPU-1", 90, 100)
    assert places.memory_of(CHAT, 3 + WINDOW_SECONDS) == Memory()


def test_a_promise_is_less_than_the_card() -> None:
    places = Whereabouts()
    places.note("GPU-1", [stay(11, promised_bytes=40)], 1)

    assert places.memory_of(CHAT, 1).promised_bytes == 40


def test_of_several_cards_none_is_named() -> None:
    places = Whereabouts()
    places.note("GPU-1", [stay(11)], 1)
    places.note("GPU-2", [stay(11, uuid="GPU-2")], 1)

    assert places.memory_of(CHAT, 1) == Memory()


def test_a_process_is_known_after_its_end_and_not_for_ever() -> None:
    places = Whereabouts()
    places.note("GPU-1", [stay(11), stay(12, workload=TRAIN)], 1)
    places.note("GPU-1", [], 2)

    assert (places.workload_of(11), places.workload_of(12)) == (CHAT, TRAIN)
    for second in (100, REMEMBERED_SECONDS + 200):
        places.note("GPU-1", [], second)
    assert places.workload_of(11) is None
    assert places.measured(REMEMBERED_SECONDS) == frozenset()


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        pytest.param({"used_bytes": 60, "room_used_bytes": 97}, 1, id="full card"),
        pytest.param({"used_bytes": 20, "room_used_bytes": 97}, 0, id="filled by others"),
        pytest.param({"used_bytes": 39, "promised_bytes": 40}, 1, id="full promise"),
        pytest.param({"room_used_bytes": 96}, 0, id="room left"),
        pytest.param({"used_bytes": None, "room_used_bytes": None}, 0, id="not told"),
    ],
)
def test_who_leaves_a_full_card_is_noticed(changes: dict[str, Any], count: int) -> None:
    places = Whereabouts()
    places.note("GPU-1", [stay(11, 12, **changes)], 1)
    places.note("GPU-1", [stay(12)], 2)
    places.note("GPU-1", [stay(12)], 3)

    departures = places.take_departures()

    assert [(each.workload, each.at_seconds) for each in departures] == [(CHAT, 2)] * count
    assert places.take_departures() == []


def test_a_workload_that_leaves_as_a_whole_is_noticed_once() -> None:
    places = Whereabouts()
    places.note("GPU-1", [stay(11, used_bytes=99, room_used_bytes=100)], 1)
    for second in range(2, 20):
        places.note("GPU-1", [], second)

    assert len(places.take_departures()) == 1


def test_a_process_that_goes_by_another_name_has_not_left() -> None:
    places, unnamed = Whereabouts(), Workload("pod", "team", "chat")
    places.note("GPU-1", [stay(11, workload=unnamed, used_bytes=99, room_used_bytes=100)], 1)
    places.note("GPU-1", [stay(11, used_bytes=99, room_used_bytes=100)], 2)

    assert places.take_departures() == []
    assert places.workload_of(11) == CHAT

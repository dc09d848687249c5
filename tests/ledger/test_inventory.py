"""What changed in a fleet, from the stays of its cards."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise, zip_longest

from hypothesis import given
from hypothesis import strategies as st

from rightslice.ledger.inventory import ChangeKind, InventoryChange, inventory_changes
from rightslice.ledger.stays import Place, Stay

START = datetime(2026, 9, 1, tzinfo=UTC)
END = 1000
SLOTS = ("3b", "3c", "86", "87")
DAY = 24


def at(hour: int) -> datetime:
    return START + timedelta(hours=hour)


def place(slot: str = "3b", node: str = "node-1", cluster: str = "east") -> Place:
    return Place(cluster, node, slot)


def stay(
    uuid: str,
    where: Place,
    since: int = 0,
    until: int = END,
    *,
    before: int = 0,
    after: int | None = None,
) -> Stay:
    """A stay in hours; seen to the end unless told otherwise."""
    unseen = END - until if after is None else after
    return Stay(uuid, "A100", where, at(since), at(until), before, unseen)


def told(changes: list[InventoryChange]) -> list[tuple[str, str, datetime]]:
    return [(change.kind, change.uuid, change.at) for change in changes]


def test_a_fleet_in_which_nothing_happens_has_no_changes() -> None:
    assert inventory_changes([stay("a", place("3b")), stay("b", place("3c"))]) == []


def test_no_stays_have_no_changes() -> None:
    assert inventory_changes([]) == []


def test_a_card_that_is_seen_after_others_arrived() -> None:
    changes = inventory_changes([stay("a", place(), since=5, before=5)])

    assert changes == [InventoryChange(ChangeKind.ARRIVED, at(5), "a", None, place())]


def test_a_card_unseen_for_a_day_left_when_it_was_last_read() -> None:
    changes = inventory_changes([stay("a", place(), until=500)])

    assert changes == [InventoryChange(ChangeKind.LEFT, at(500), "a", place(), None)]


def test_a_card_unseen_for_less_than_a_day_has_not_left() -> None:
    assert inventory_changes([stay("a", place(), until=END - DAY + 1)]) == []


def test_a_card_that_comes_back_to_its_place_left_and_arrived() -> None:
    changes = inventory_changes(
        [
            stay("a", place(), until=100, after=100),
            stay("a", place(), since=200, before=100),
        ]
    )

    assert told(changes) == [("left", "a", at(100)), ("arrived", "a", at(200))]


def test_a_card_on_another_node_moved_however_long_it_was_away() -> None:
    there = place("86", "node-2")
    changes = inventory_changes(
        [
            stay("a", place(), until=100, after=300),
            stay("b", place("3c")),
            stay("a", there, since=400, before=300),
        ]
    )

    assert changes == [InventoryChange(ChangeKind.MOVED, at(400), "a", place(), there)]


def test_cards_swapped_between_two_slots_moved() -> None:
    changes = inventory_changes(
        [
            stay("a", place("3b"), until=100, after=1),
            stay("b", place("3c"), until=100, after=1),
            stay("a", place("3c"), since=101, before=1),
            stay("b", place("3b"), since=101, before=1),
        ]
    )

    assert changes == [
        InventoryChange(ChangeKind.MOVED, at(101), "a", place("3b"), place("3c")),
        InventoryChange(ChangeKind.MOVED, at(101), "b", place("3c"), place("3b")),
    ]


def test_another_card_in_the_place_of_one_that_left_replaced_it() -> None:
    changes = inventory_changes(
        [stay("old", place(), until=100), stay("new", place(), since=102, before=102)]
    )

    assert changes == [
        InventoryChange(ChangeKind.REPLACED, at(102), "old", place(), place(), "new")
    ]


def test_a_card_that_came_before_the_other_left_did_not_replace_it() -> None:
    changes = inventory_changes(
        [stay("old", place(), until=100), stay("new", place(), since=90, before=90)]
    )

    assert told(changes) == [("arrived", "new", at(90)), ("left", "old", at(100))]


def test_a_card_whose_predecessor_moved_away_arrived() -> None:
    changes = inventory_changes(
        [
            stay("old", place(), until=100, after=1),
            stay("old", place("86", "node-2"), since=101, before=1),
            stay("new", place(), since=102, before=102),
        ]
    )

    assert told(changes) == [("moved", "old", at(101)), ("arrived", "new", at(102))]


def test_without_slots_nobody_is_said_to_be_replaced() -> None:
    nowhere = place(slot="")
    changes = inventory_changes(
        [stay("old", nowhere, until=100), stay("new", nowhere, since=102, before=102)]
    )

    assert told(changes) == [("left", "old", at(100)), ("arrived", "new", at(102))]


def test_a_card_replaced_twice_names_each_successor() -> None:
    changes = inventory_changes(
        [
            stay("a", place(), until=100),
            stay("b", place(), since=110, until=200, before=110),
            stay("c", place(), since=210, before=210),
        ]
    )

    assert [(change.uuid, change.successor_uuid) for change in changes] == [("a", "b"), ("b", "c")]


def renaming(old: str, new: str, cards: str = "abcd") -> list[Stay]:
    """All cards of a node are told under another name from hour 100 on."""
    return [
        one
        for uuid, slot in zip(cards, SLOTS, strict=True)
        for one in (
            stay(uuid, place(slot, old), until=100, after=0),
            stay(uuid, place(slot, new), since=100),
        )
    ]


def test_a_renamed_node_is_one_change() -> None:
    changes = inventory_changes(renaming("node-1", "node-9"))

    assert changes == [
        InventoryChange(
            ChangeKind.RENAMED,
            at(100),
            "",
            place("", "node-1"),
            place("", "node-9"),
            card_count=4,
        )
    ]


def test_a_node_whose_cluster_is_named_anew_is_renamed() -> None:
    here, there = place(cluster="east"), place(cluster="west")
    changes = inventory_changes([stay("a", here, until=100, after=0), stay("a", there, since=100)])

    assert [(change.kind, change.after) for change in changes] == [
        ("renamed", place("", cluster="west"))
    ]


def test_two_nodes_that_swap_their_names_are_two_changes() -> None:
    changes = inventory_changes(
        [*renaming("node-1", "node-2"), *renaming("node-2", "node-1", cards="efgh")]
    )

    assert [change.kind for change in changes] == ["renamed", "renamed"]


def test_cards_moved_to_a_node_that_has_others_are_moves() -> None:
    changes = inventory_changes([*renaming("node-1", "node-9"), stay("z", place("af", "node-9"))])

    assert [change.kind for change in changes] == ["moved"] * 4


def test_cards_moved_from_a_node_that_keeps_one_are_moves() -> None:
    changes = inventory_changes([*renaming("node-1", "node-9"), stay("z", place("af"))])

    assert [change.kind for change in changes] == ["moved"] * 4


def test_cards_in_other_slots_of_another_node_are_moves() -> None:
    stays = renaming("node-1", "node-9")
    stays[1] = stay("a", place("af", "node-9"), since=100)

    assert [change.kind for change in inventory_changes(stays)] == ["moved"] * 4


@st.composite
def fleets(draw: st.DrawFn) -> list[Stay]:
    """Cards that come, move about and go, each in a slot of its own, as a ledger tells stays."""
    stays = []
    for number in range(draw(st.integers(0, 6))):
        hour = before = draw(st.integers(0, 50))
        nodes = draw(st.lists(st.sampled_from(["node-1", "node-2"]), min_size=1, max_size=4))
        for node, following in zip_longest(nodes, nodes[1:]):
            until = hour + draw(st.integers(1, 200))
            gap = draw(st.integers(DAY if following == node else 0, 60))
            where = place(f"slot-{number}", node)
            stays.append(stay(f"card-{number}", where, hour, until, before=before, after=gap))
            hour, before = until + gap, gap
    return stays


@given(fleets())
def test_who_is_there_at_the_end_follows_from_the_changes(stays: list[Stay]) -> None:
    by_card: dict[str, list[Stay]] = {}
    for one in stays:
        by_card.setdefault(one.uuid, []).append(one)
    present = {uuid for uuid, found in by_card.items() if not found[0].unseen_before_count}

    for change in inventory_changes(stays):
        if change.kind is ChangeKind.ARRIVED:
            assert change.uuid not in present
            present.add(change.uuid)
        elif change.kind is ChangeKind.LEFT:
            present.remove(change.uuid)
        elif change.kind is ChangeKind.MOVED:
            assert change.uuid in present

    assert present == {
        uuid for uuid, found in by_card.items() if found[-1].unseen_after_count < DAY
    }


@given(fleets())
def test_a_card_that_moved_has_not_left_and_each_step_is_told_once(stays: list[Stay]) -> None:
    changes = inventory_changes(stays)

    steps = [
        (later.uuid, later.since, earlier.place, later.place)
        for earlier, later in pairwise(stays)
        if earlier.uuid == later.uuid and earlier.place != later.place
    ]
    moves = [(one.uuid, one.at, one.before, one.after) for one in changes if one.kind == "moved"]
    renamed = sum(one.card_count for one in changes if one.kind is ChangeKind.RENAMED)
    assert len(moves) + renamed == len(steps)
    assert set(moves) <= set(steps)
    ends = {(step.uuid, step.at) for step in changes if step.kind == "left"}
    assert not ends & {(uuid, since) for uuid, since, *_ in moves}


@given(st.permutations(renaming("node-1", "node-9")))
def test_the_order_in_which_stays_are_told_does_not_matter(stays: list[Stay]) -> None:
    assert [change.kind for change in inventory_changes(stays)] == ["renamed"]

"""Which slices a card is cut into, and since when."""

import json

from rightslice.feeders.hours.slice_layout import Slice, SliceLayout

START = 1_000 * 3600.0


def made(name: str, uuid: str = "GPU-1") -> Slice:
    return Slice(uuid, name, "mig", "1", "3g.20gb", 4, 8)


def test_a_slice_that_comes_back_owns_both_of_its_times() -> None:
    layout = SliceLayout()
    layout.see("GPU-1", START, {"1": made("MIG-a")})
    layout.see("GPU-1", START + 600, {})
    layout.see("GPU-1", START + 1800, {"1": made("MIG-a")})

    assert layout.owned_seconds("MIG-a", 1_000, START + 3000) == 600 + 1200


def test_a_slice_whose_units_become_known_stays_the_same() -> None:
    layout = SliceLayout()
    layout.see("GPU-1", START, {"1": Slice("GPU-1", "MIG-a", "mig", "1", "3g.20gb", 0, 0)})
    layout.see("GPU-1", START + 600, {"1": made("MIG-a")})

    assert layout.owned_seconds("MIG-a", 1_000, START + 3600) == 3600
    assert layout.known["MIG-a"].units == 4


def test_what_ended_before_the_open_hours_is_dropped() -> None:
    layout = SliceLayout()
    layout.see("GPU-1", START, {"1": made("MIG-a")})
    layout.see("GPU-1", START + 600, {"1": made("MIG-b")})

    layout.forget_before(1_001)

    assert set(layout.known) == set(layout.spans) == {"MIG-b"}


def test_the_slices_of_a_card_that_left_go_with_it() -> None:
    layout = SliceLayout()
    layout.see("GPU-1", START, {"1": made("MIG-a")})
    layout.see("GPU-2", START, {"1": made("MIG-b", "GPU-2")})

    layout.forget_cards({"GPU-1"})

    assert (set(layout.known), layout.of_card("GPU-1")) == ({"MIG-b"}, {})


def test_time_after_a_clock_that_was_set_back_is_taken_back() -> None:
    layout = SliceLayout()
    layout.see("GPU-1", START + 5000, {"1": made("MIG-a")})

    layout.start_over(START + 600)

    assert layout.owned_seconds("MIG-a", 1_000, START + 900) == 300


def test_a_layout_survives_json() -> None:
    layout = SliceLayout()
    layout.see("GPU-1", START, {"1": made("MIG-a")})
    layout.see("GPU-1", START + 600, {"1": made("MIG-b")})

    again = SliceLayout()
    again.restore(json.loads(json.dumps(layout.state())))

    assert again == layout

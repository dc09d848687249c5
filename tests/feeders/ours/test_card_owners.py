"""Which of several targets tells of a card."""

import pytest

from rightslice.feeders.ours.card_owners import CardOwners, Teller

FIRST = Teller("first", 1000.0, 500.0)


@pytest.mark.parametrize(
    ("teller", "may"),
    [
        pytest.param(Teller("first", 1060.0, 500.0), True, id="the first goes on"),
        pytest.param(Teller("second", 1060.0, 500.0), False, id="another has to wait"),
        pytest.param(Teller("second", 1600.0, 500.0), True, id="until the first is silent"),
        pytest.param(Teller("second", 1060.0, 1030.0), True, id="unless it is newer"),
    ],
)
def test_the_first_to_tell_keeps_a_card(teller: Teller, *, may: bool) -> None:
    owners = CardOwners()
    owners.claim(FIRST, "GPU-1")

    assert owners.claim(teller, "GPU-1") is may
    assert owners.may_tell(teller, "GPU-1") is may


def test_a_card_of_nobody_may_be_told_by_anybody() -> None:
    owners = CardOwners()
    owners.claim(FIRST, "GPU-1")
    owners.forget(["GPU-1", "GPU-2"])

    assert owners.may_tell(Teller("second", 1060.0, 500.0), "GPU-1")

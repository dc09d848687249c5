"""The MIG layouts that tests rely on."""

from rightslice.facts.mig import MigCard, find_mig_card


def layout(mig_id: str) -> MigCard:
    """Find a layout that the test relies on."""
    card = find_mig_card(mig_id)
    assert card is not None
    return card

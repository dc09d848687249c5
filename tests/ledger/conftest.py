"""An empty ledger, in memory."""

from collections.abc import Iterator

import pytest

from rightslice.ledger.ledger import Ledger


@pytest.fixture
def ledger() -> Iterator[Ledger]:
    opened = Ledger.open()
    yield opened
    opened.close()

"""Fetches the next thing while the last one is worked on."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def one_ahead(items: Iterator[Item]) -> Iterator[Item]:
    """Give items in order; the next is made in a thread meanwhile. Errors come where they belong.

    Who stops early waits for the one that is being made.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="fetch") as pool:
        # None ends: items are never None.
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item

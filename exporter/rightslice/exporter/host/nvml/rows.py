"""Room for the lists that the driver writes."""

from collections.abc import Callable, Sequence
from ctypes import byref, c_uint
from typing import Any

from rightslice.exporter.host.nvml.calls import INSUFFICIENT_SIZE, Answer, Calls

# Makes the last arguments of a call from the number of rows, and the room for them.
Order = Callable[[Any, Any], tuple[Any, ...]]

GROWN_BUFFER_RETRIES = 3
# More than any card has of anything that is listed; a driver that asks for more is broken.
MOST_ROWS = 65_536


def count_first(count: Any, rows: Any) -> tuple[Any, ...]:
    """Order the arguments as most of NVML's functions take them."""
    return (count, rows)


class Rows:
    """A buffer that is used again and again, and grows when the driver has more to tell.

    So a list costs one call, where the binding's wrappers ask for its size first.
    """

    def __init__(self, kind: Any, length: int) -> None:
        self._kind = kind
        self._length = length
        self._rows = (kind * length)()

    def read(
        self, calls: Calls, name: str, *arguments: Any, order: Order = count_first
    ) -> Sequence[Any] | None:
        """Make a call whose last arguments are the number of rows, and room for them, in `order`.

        Gives the rows, good until the next call; None where the call is absent. Raises NvmlError,
        also when no room is enough for the driver: then the room that was made is given back.
        """
        code, count = INSUFFICIENT_SIZE, c_uint()
        for _ in range(GROWN_BUFFER_RETRIES):
            count.value = len(self._rows)
            code = calls.attempt(name, *arguments, *order(byref(count), self._rows))
            wanted = 2 * max(count.value, len(self._rows))
            if code != INSUFFICIENT_SIZE or wanted > MOST_ROWS:
                break
            self._rows = (self._kind * wanted)()
        if code == INSUFFICIENT_SIZE:
            self._rows = (self._kind * self._length)()
        answer = calls.settle(name, code)
        if answer is Answer.ABSENT:
            return None
        rows: Sequence[Any] = self._rows[: min(count.value, len(self._rows))]
        return rows if answer is Answer.VALUE else []

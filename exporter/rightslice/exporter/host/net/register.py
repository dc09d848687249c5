"""A hardware counter made one that only grows: narrow registers widened, resets told."""

from collections.abc import Iterable

from rightslice.facts.nics import FULL_WIDTH_BITS, SATURATE, WRAP, CounterRow

# The smallest frame on the wire, with preamble and gap: no port counts more of them than fit.
SMALLEST_FRAME_BYTES = 84
# What a port of today's fastest kind can carry, where its own rate is not known.
FASTEST_BYTES_PER_SECOND = 800e9 / 8
# The time between two readings is not that between two states of the hardware.
TIMING_MARGIN = 1.5
# A longer step may be a wrap, but one from a small value to a smaller one is a reset, however long
# ago the reading before was.
LONGEST_STEP_RATIO = 0.5


class Register:
    """Follows one counter over its readings.

    A register that is narrower than 64 bits and wraps goes on where it wrapped, if the step is one
    that the port can have made in the time; else it began anew (the driver was loaded again), and
    so does what is told. `reset_count` counts that. The mlx5 driver adds several registers of 32
    bits, so that its values can be above that. A gauge falls as it likes.
    """

    __slots__ = ("_base", "_is_gauge", "_modulus", "_raw", "_saturated_at", "_unit", "reset_count")

    def __init__(self, row: CounterRow) -> None:
        self._is_gauge = row.is_gauge
        is_narrow = row.width_bits < FULL_WIDTH_BITS
        self._modulus = 1 << row.width_bits if is_narrow and row.overflow == WRAP else 0
        self._saturated_at = (1 << row.width_bits) - 1 if row.overflow == SATURATE else None
        # Bytes count one by one; all else counts frames at most.
        self._unit = 1 if row.metric.endswith("_bytes_total") else SMALLEST_FRAME_BYTES
        self._raw: int | None = None
        self._base = 0
        self.reset_count = 0

    def take(
        self,
        raw: int,
        elapsed_seconds: float,
        bytes_per_second: float | None,
        *,
        began_anew: bool = False,
    ) -> int:
        """Give the widened value of a reading so long after the one before.

        `began_anew` says that its neighbours did meanwhile: if it has fallen, it did not wrap.
        """
        before, self._raw = self._raw, raw
        if before is None or raw >= before or self._is_gauge:
            return self._base + raw
        if self._modulus and not began_anew:
            rate = (bytes_per_second or FASTEST_BYTES_PER_SECOND) / self._unit
            step = raw - before + self._modulus
            most = min(rate * elapsed_seconds * TIMING_MARGIN, self._modulus * LONGEST_STEP_RATIO)
            if 0 <= step <= most:
                self._base += self._modulus
                return self._base + raw
        self._base = 0
        self.reset_count += 1
        return raw

    def shows_reset(self, raw: int) -> bool:
        """Tell whether this reading to come proves a reset: it falls, and never does by itself."""
        if self._raw is None or self._is_gauge or self._modulus or self._saturated_at is not None:
            return False
        return raw < self._raw

    @property
    def is_saturated(self) -> bool:
        """Tell whether it stands at its end, and counts no further."""
        return self._saturated_at is not None and self._raw == self._saturated_at


def registers_fell(readings: Iterable[tuple[Register, int]]) -> bool:
    """Tell of readings that were made together, before any is taken, whether they began anew.

    Then none of the narrow registers that fell has wrapped. One of full width falls by a reset
    only. One that stands at its end may have been reset by hand, and alone.
    """
    return any(register.shows_reset(raw) for register, raw in readings)

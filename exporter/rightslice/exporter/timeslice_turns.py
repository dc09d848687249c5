"""The wait of contexts with short kernels beside one with long kernels, from counted switches.

It takes slice after slice. Who asks in one waits for its end, however short its own kernel is, and
then with others that asked. How often they ask follows from how often the context was switched.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, expm1

# With more requests than this in a slice, each slice surely has one.
MOST_REQUESTS_PER_SLICE = 50.0
HALVINGS = 40
# Far below the whole percent that the driver tells.
LEAST_SHARE = 1e-6


def waits_for_slices(
    shares: Sequence[float],
    estimates: Sequence[float],
    switches_per_second: float,
    slice_seconds: float,
) -> list[float]:
    """Estimate, taking the busiest for the one with long kernels; 0 for it and for its equals.

    `estimates` are what is known of the waits without switches. Who was not seen busy is left
    out, unless there is no other that the switches could be of.
    """
    heavy = max(range(len(shares)), key=shares.__getitem__)
    lights = [
        index
        for index, share in enumerate(shares)
        if index != heavy and (share > 0 or len(shares) == 2)
    ]
    waited = [0.0] * len(shares)
    if not (lights and switches_per_second and shares[heavy] >= LEAST_SHARE):
        return waited
    if len(lights) == 1:  # Both take turns, so half of the switches are to the heavy one.
        slice_seconds = min(slice_seconds, 2 * shares[heavy] / switches_per_second)
    total = sum(shares[index] for index in lights)
    traffic = _LightTraffic(
        slices_per_second=shares[heavy] / slice_seconds,
        slice_seconds=slice_seconds,
        away_ratio=max(0.0, 1 - shares[heavy] - estimates[heavy]),
        weights=tuple(shares[index] / total if total else 1.0 for index in lights),
    )
    per_slice = traffic.requests_per_slice(switches_per_second)
    busy = [shares[index] for index in lights]
    for index, ratio in zip(lights, traffic.waits(busy, per_slice), strict=True):
        if shares[index] < shares[heavy]:
            waited[index] = ratio
    return waited


@dataclass(frozen=True, slots=True)
class _LightTraffic:
    """Contexts that ask at random, in these proportions, beside one that takes whole slices.

    In the away ratio the heavy one wants nothing, and they switch among each other.
    """

    slices_per_second: float
    slice_seconds: float
    away_ratio: float
    weights: Sequence[float]

    def requests_per_slice(self, switches_per_second: float) -> float:
        """Find how often they ask if there are so many switches."""
        low, high = 0.0, MOST_REQUESTS_PER_SLICE
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self._switches_per_second(middle) < switches_per_second:
                low = middle
            else:
                high = middle
        return low

    def waits(self, busy_ratios: Sequence[float], per_slice: float) -> list[float]:
        """Give the wait of each: the rest of each slice in which it asks, and then its queue."""
        asked = [-expm1(-per_slice * weight) for weight in self.weights]
        turn_rates = self._turns_per_second(per_slice)
        turns_seconds = [
            chance * busy / rate if rate else 0.0
            for chance, busy, rate in zip(asked, busy_ratios, turn_rates, strict=True)
        ]
        waits = []
        for chance, weight, own_seconds in zip(asked, self.weights, turns_seconds, strict=True):
            rest_seconds = self.slice_seconds * _rest_of_slice(per_slice * weight)
            # Of the others' turns after a slice, half come before its own on average.
            queue_seconds = (sum(turns_seconds) - own_seconds) / 2
            waits.append(self.slices_per_second * chance * (rest_seconds + queue_seconds))
        return waits

    def _switches_per_second(self, per_slice: float) -> float:
        to_heavy = -self.slices_per_second * expm1(-per_slice)
        return to_heavy + sum(self._turns_per_second(per_slice))

    def _turns_per_second(self, per_slice: float) -> list[float]:
        """Count switches to each: after slices, and from another light one when heavy is away."""
        away_requests_per_second = per_slice / self.slice_seconds * self.away_ratio
        return [
            -self.slices_per_second * expm1(-per_slice * weight)
            + away_requests_per_second * weight * (1 - weight)
            for weight in self.weights
        ]


def _rest_of_slice(per_slice: float) -> float:
    """Give the part of a slice that is left when the first of some random requests comes."""
    if per_slice < 1e-3:  # Where the formula below would be a difference of large numbers.
        return 0.5 + per_slice / 12
    return 1 - 1 / per_slice + exp(-per_slice) / -expm1(-per_slice)

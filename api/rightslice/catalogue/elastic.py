"""What a slice costs that is billed for the replicas that run."""

from collections.abc import Iterable
from fractions import Fraction

from rightslice.catalogue.money import Money

HOURS_PER_DAY = 24


def mean_replicas(schedule: Iterable[tuple[int, Fraction | int]]) -> Fraction:
    """Average a day's plan of (replicas, hours). Raises ValueError unless it fills 24 hours."""
    plan = [(replicas, Fraction(hours)) for replicas, hours in schedule]
    hours = sum((hours for _, hours in plan), Fraction())
    if hours != HOURS_PER_DAY:
        raise ValueError(f"a day's plan must fill {HOURS_PER_DAY} hours, got {float(hours):g}")
    return sum((replicas * hours for replicas, hours in plan), Fraction()) / HOURS_PER_DAY


def elastic_price_per_month(price_per_replica: Money, replicas: Fraction) -> Money:
    """Give a month's price at a mean number of running replicas."""
    return price_per_replica.times(replicas)


def break_even_replicas(whole_per_month: Money, replica_per_month: Money) -> Fraction | None:
    """Give the mean number of replicas at which slices cost as much as the whole card.

    None where a price is a range: then there is no one number.
    """
    if whole_per_month.is_range or replica_per_month.is_range:
        return None
    return Fraction(whole_per_month.low) / Fraction(replica_per_month.low)

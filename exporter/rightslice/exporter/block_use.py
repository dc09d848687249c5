"""From some seconds of samples to what each workload had of a card, and how long it waited."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from rightslice.exporter.tenancy import Key
from rightslice.exporter.timeslice import (
    SAMPLES_PER_SECOND,
    SLICE_SECONDS,
    Block,
    Wait,
    is_inconsistent,
    waits,
)

# Some 7 a second for as long as the driver keeps them; where nobody takes them they go.
MOST_SAMPLES = 256
ROUNDING_RATIO = 1e-9
# The longest sample period any product is documented to have is 1 s; one may be missed.
LONGEST_SAMPLE_SECONDS = 2.0
# In a block the driver samples some 35 times: who kept the card this busy is found with all but one
# chance in 2,000. Below, a share of 0 may be one that was not found.
SURE_BUSY_RATIO = 0.2


@dataclass(slots=True)
class BusyBlock:
    """What the card's samples added up to, and the samples themselves, oldest first."""

    busy_seconds: float = 0.0
    covered_seconds: float = 0.0
    busy_ratios: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_SAMPLES))

    def add(self, covered_seconds: float, busy_ratio: float) -> None:
        self.busy_seconds += covered_seconds * busy_ratio
        self.covered_seconds += covered_seconds
        self.busy_ratios.append(busy_ratio)

    @property
    def busy_ratio(self) -> float | None:
        """Give the share of the block's time in which a kernel ran; None for no time."""
        return self.busy_seconds / self.covered_seconds if self.covered_seconds else None

    def told_seconds(self, age_seconds: float) -> float:
        """Give the time that the block stands for, which is that for which its tenants are known.

        After a pause the card tells of more than that.
        """
        covered_seconds = self.covered_seconds or age_seconds
        return min(covered_seconds, age_seconds + LONGEST_SAMPLE_SECONDS)

    @property
    def sample_seconds(self) -> float:
        """Give how much time one of the card's samples stands for: products differ."""
        count = len(self.busy_ratios)
        return self.covered_seconds / count if self.covered_seconds else 1 / SAMPLES_PER_SECOND

    @property
    def process_sample_count(self) -> int:
        """How many samples the driver credited to a process: those that found the card busy.

        The ring of the card's own use, which these are of, is filled at another pace.
        """
        if not self.busy_ratios:
            return 0
        busy_share = sum(ratio > 0 for ratio in self.busy_ratios) / len(self.busy_ratios)
        return round(SAMPLES_PER_SECOND * self.covered_seconds * busy_share)


@dataclass(slots=True)
class Use:
    """Shares of the block's time, added up over a workload's contexts.

    `is_estimated` says that the wait is; that of a context which is alone is 0 for certain.
    """

    busy_ratio: float = 0.0
    wait_ratio: float = 0.0
    upper_bound_ratio: float = 0.0
    may_be_low: bool = False
    is_estimated: bool = False

    def add(self, context: Wait, *, is_estimated: bool) -> None:
        self.busy_ratio += context.busy_ratio
        self.wait_ratio += context.wait_ratio
        self.upper_bound_ratio += context.upper_bound_ratio
        self.may_be_low = self.may_be_low or context.may_be_low
        self.is_estimated = is_estimated


@dataclass(frozen=True, slots=True)
class BlockUse:
    """A card's use by workload. `unattributed_ratio` is what no workload that is known had.

    It is None where the card does not tell its own use.
    """

    by_workload: Mapping[Key, Use]
    unattributed_ratio: float | None
    is_inconsistent: bool


def use_of(
    processes: Mapping[int, Key | None],
    shares: Mapping[int, float] | None,
    card: BusyBlock,
    switches_per_second: float | None,
    slice_seconds: float = SLICE_SECONDS,
    *,
    has_strangers: bool = False,
) -> BlockUse | None:
    """Work out a block's use; None where it cannot be told whose it was.

    `processes` are all that were on the card, hidden ones as None. `shares` is None where the
    driver does not tell the use of single processes: one that is alone has what the card had.
    `has_strangers` says that the driver told of a share of some process that is not among them.
    """
    if len(processes) <= 1:
        had_ratio = _lone_ratio(shares, card.busy_ratio, has_strangers=has_strangers)
        if had_ratio is None:
            return None
        lone = Wait(had_ratio, 0.0, 0.0, may_be_low=False)
        return _block_use(processes, dict.fromkeys(processes, lone), card.busy_ratio)
    if shares is None:
        return None
    block = Block(
        busy_ratios=shares,
        device_busy_ratio=card.busy_ratio,
        sample_count=card.process_sample_count,
        device_samples=tuple(card.busy_ratios),
        device_sample_seconds=card.sample_seconds,
        switches_per_second=switches_per_second,
    )
    return _block_use(
        processes,
        waits(block, slice_seconds),
        card.busy_ratio,
        is_inconsistent=is_inconsistent(block),
    )


def _lone_ratio(
    shares: Mapping[int, float] | None, card_ratio: float | None, *, has_strangers: bool
) -> float | None:
    """Give what a process had that nobody else was seen beside; None where that is not told.

    All that the card had, which is measured better, unless somebody came and went unseen.
    """
    if card_ratio is None or shares is None:
        return card_ratio if shares is None else sum(shares.values())
    own_ratio = sum(shares.values())
    if has_strangers or (own_ratio == 0 and card_ratio >= SURE_BUSY_RATIO):
        return min(own_ratio, card_ratio)
    return card_ratio


def _block_use(
    processes: Mapping[int, Key | None],
    contexts: Mapping[int, Wait],
    card_ratio: float | None,
    *,
    is_inconsistent: bool = False,
) -> BlockUse:
    by_workload: dict[Key, Use] = {}
    for process_id, key in processes.items():
        if key is not None:
            use = by_workload.setdefault(key, Use())
            use.add(contexts[process_id], is_estimated=len(processes) > 1)
    had_ratio = sum(use.busy_ratio for use in by_workload.values())
    left_ratio = None if card_ratio is None else card_ratio - had_ratio
    if left_ratio is not None and left_ratio < ROUNDING_RATIO:
        left_ratio = 0.0
    return BlockUse(by_workload, left_ratio, is_inconsistent)

"""One row of the metric contract, and the rule that keeps its name honest."""

import re
from dataclasses import dataclass
from enum import StrEnum

PREFIX = "rightslice_"
LABEL_NAME = re.compile(r"[a-z][a-z0-9_]*")


class Kind(StrEnum):
    """How a metric behaves over time."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Unit(StrEnum):
    """Base units only; a dimensionless number has none."""

    NONE = ""
    SECONDS = "seconds"
    BYTES = "bytes"
    RATIO = "ratio"
    WATTS = "watts"
    JOULES = "joules"
    CELSIUS = "celsius"


@dataclass(frozen=True, slots=True, eq=False)  # there is one object per metric; hashing is hot
class MetricSpec:
    """One row of the contract. Building a badly named row fails at import.

    `source` says where the value is read. `absent` says when there is no series: absence means
    unknown, and is never written as 0.
    `peak_window_seconds` makes a gauge the maximum of its samples in that trailing window.
    `mean_seconds` makes a histogram observe means over wall-clock spans of that length.
    `subject_label_count` says that the first so many labels name something that comes and ends,
    such as a workload: when it ends its gauges go at once, its counters and histograms somewhat
    later, so that the last interval can be read.
    """

    name: str
    kind: Kind
    unit: Unit
    help: str
    labels: tuple[str, ...] = ("uuid",)
    buckets: tuple[float, ...] = ()
    absent: str = "never"
    source: str = ""
    peak_window_seconds: float = 0.0
    mean_seconds: float = 0.0
    subject_label_count: int = 0
    # The reset signal is named as in every other Prometheus client, without our prefix.
    prefixed: bool = True

    def __post_init__(self) -> None:
        parts = [str(self.unit)] * (self.unit is not Unit.NONE)
        parts += ["total"] * (self.kind is Kind.COUNTER)
        tail = "".join(f"_{part}" for part in parts)
        if self.prefixed != self.name.startswith(PREFIX) or not self.name.endswith(tail):
            raise ValueError(f"{self.name}: want {PREFIX}...{tail}")
        if self.subject_label_count > len(self.labels):
            raise ValueError(f"{self.name}: its subject has more labels than {self.labels}")
        if (self.kind is Kind.HISTOGRAM) != bool(self.buckets):
            raise ValueError(f"{self.name}: a histogram, and only a histogram, has buckets")
        if any(not LABEL_NAME.fullmatch(label) for label in self.labels):
            raise ValueError(f"{self.name}: bad label in {self.labels}")
        if not self.help.endswith("."):
            raise ValueError(f"{self.name}: the help is a sentence and ends with a full stop")


@dataclass(frozen=True, slots=True)
class Sample:
    """One reading on its way to the aggregator.

    A gauge is set to `value`, a counter grows by it, a histogram observes it. For a histogram of
    means `covered_seconds` is how much time the value stands for.

    `is_total` says that a counter's `value` is a running total of the source's own, of which what
    it grew since the last reading counts; a total that fell was reset, and counts from 0.
    `is_register` says that it is told as it stands, and not told while nobody reads it.
    `subject` tells apart things that bear the same labels one after the other (a GPU instance id is
    used again, a total is read from another source): totals and peaks of another subject are not
    carried over.
    """

    spec: MetricSpec
    value: float
    labels: tuple[str, ...] = ()
    covered_seconds: float = 0.0
    is_total: bool = False
    is_register: bool = False
    subject: str = ""

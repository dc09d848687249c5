"""Writes the PromQL that we ask: selectors of targets and cards, and the functions over them."""

import json
from collections.abc import Iterable, Mapping, Sequence

TargetKey = tuple[str, ...]

# What RE2 takes for more than itself; it refuses other characters with a backslash.
RE2_SPECIAL = frozenset("\\.+*?()|[]{}^$")
# Functions over a range drop the metric's name; this label keeps it.
METRIC_LABEL = "rightslice_metric"


def quoted(value: str) -> str:
    """Quote a label value for PromQL, whose strings are written as JSON writes them.

    But for characters beyond ASCII: JSON may write them in two halves, which PromQL refuses.
    """
    return json.dumps(value, ensure_ascii=False)


def any_of(values: Iterable[str]) -> str:
    """Write a matcher for any of some literal values."""
    escaped = ("".join(f"\\{c}" if c in RE2_SPECIAL else c for c in value) for value in values)
    return quoted("|".join(escaped))


def target_key(labels: Mapping[str, str], names: Iterable[str]) -> TargetKey:
    """Give what tells a series' target apart from the others."""
    return tuple([labels.get(name, "") for name in names])


def target_matchers(names: Sequence[str], keys: Sequence[TargetKey]) -> str:
    """Select the series of some targets; it may select more, so results are looked through."""
    columns = zip(*keys, strict=True)
    return ", ".join(
        f"{name}=~{any_of(sorted(set(values)))}"
        for name, values in zip(names, columns, strict=True)
    )


def of_names(names: Iterable[str], matchers: str) -> str:
    """Select the series of some metrics."""
    return f'{{__name__=~"{"|".join(names)}", {matchers}}}'


def last_over(selector: str, seconds: float) -> str:
    """Ask for each series' last value in a time before each step; it keeps its name."""
    return f"last_over_time({selector}[{round(seconds * 1000)}ms])"


def highest_of_hours(names: Iterable[str], matchers: str) -> str:
    """Ask for the highest value of several metrics in the hour before each step."""
    highest = {name: f"max_over_time({name}{{{matchers}}}[1h])" for name in names}
    return " or ".join(
        f'label_replace({query}, "{METRIC_LABEL}", "{name}", "", "")'
        for name, query in highest.items()
    )

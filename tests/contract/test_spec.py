"""The rule that keeps a metric's name honest."""

from typing import Any

import pytest

from rightslice.contract.spec import Kind, MetricSpec, Unit


def gauge(name: str = "rightslice_gpu_power_ratio", **changes: Any) -> MetricSpec:
    arguments: dict[str, Any] = {
        "kind": Kind.GAUGE,
        "unit": Unit.RATIO,
        "help": "Something.",
        **changes,
    }
    return MetricSpec(name, **arguments)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        pytest.param("rightslice_gpu_up", {"unit": Unit.NONE}, id="no unit, no tail"),
        pytest.param("rightslice_gpu_used_bytes", {"unit": Unit.BYTES}, id="gauge with its unit"),
        pytest.param(
            "rightslice_gpu_busy_seconds_total",
            {"kind": Kind.COUNTER, "unit": Unit.SECONDS},
            id="counter with unit and total",
        ),
        pytest.param(
            "rightslice_failures_total",
            {"kind": Kind.COUNTER, "unit": Unit.NONE},
            id="plain count",
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio",
            {"kind": Kind.HISTOGRAM, "buckets": (0.5, 1.0)},
            id="histogram with buckets",
        ),
        pytest.param(
            "process_start_time_seconds",
            {"unit": Unit.SECONDS, "prefixed": False},
            id="named as in every client",
        ),
    ],
)
def test_a_well_named_metric_is_accepted(name: str, changes: dict[str, Any]) -> None:
    assert gauge(name, **changes).name == name


@pytest.mark.parametrize(
    ("name", "changes", "complaint"),
    [
        pytest.param("gpu_power_ratio", {}, "want rightslice_", id="no prefix"),
        pytest.param(
            "rightslice_gpu_power_ratio", {"prefixed": False}, "want rightslice_", id="two minds"
        ),
        pytest.param("rightslice_gpu_power", {}, "want rightslice_..._ratio", id="no unit"),
        pytest.param(
            "rightslice_gpu_busy_seconds",
            {"kind": Kind.COUNTER, "unit": Unit.SECONDS},
            "want rightslice_..._seconds_total",
            id="counter without total",
        ),
        pytest.param(
            "rightslice_gpu_busy_total_seconds",
            {"kind": Kind.COUNTER, "unit": Unit.SECONDS},
            "want rightslice_..._seconds_total",
            id="total before the unit",
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio", {"kind": Kind.HISTOGRAM}, "has buckets", id="no buckets"
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio", {"buckets": (1.0,)}, "has buckets", id="gauge with buckets"
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio", {"labels": ("UUID",)}, "bad label", id="capital label"
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio", {"labels": ("gpu-id",)}, "bad label", id="label with dash"
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio", {"help": "Busy share"}, "full stop", id="help no sentence"
        ),
        pytest.param(
            "rightslice_gpu_busy_ratio", {"subject_label_count": 2}, "more labels", id="no subject"
        ),
    ],
)
def test_a_badly_named_metric_fails_with_what_is_wanted(
    name: str, changes: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(ValueError, match=complaint) as failure:
        gauge(name, **changes)

    assert name in str(failure.value)

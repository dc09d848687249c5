"""How much room the advice leaves, and what it demands."""

from fractions import Fraction

import pytest

from rightslice.advice.policy import (
    COMPUTE_POLICIES,
    DEFAULT_POLICY,
    ISOLATION_ORDER,
    ComputePolicy,
    Isolation,
    Policy,
)


@pytest.mark.parametrize(
    ("observed_hours", "headroom"),
    [
        pytest.param(13.0, Fraction(30, 100), id="hours"),
        pytest.param(23.99, Fraction(30, 100), id="just below a day"),
        pytest.param(24.0, Fraction(20, 100), id="a day"),
        pytest.param(167.99, Fraction(20, 100), id="just below a week"),
        pytest.param(168.0, Fraction(10, 100), id="a week"),
        pytest.param(672.0, Fraction(10, 100), id="four weeks"),
    ],
)
def test_memory_gets_more_room_the_shorter_the_history(
    observed_hours: float, headroom: Fraction
) -> None:
    assert DEFAULT_POLICY.memory_headroom(observed_hours) == headroom


def test_the_headroom_is_a_setting() -> None:
    policy = Policy(memory_headroom_ratio=0.15)

    assert policy.memory_headroom(336) == Fraction(15, 100)


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("balanced", ComputePolicy(0.95, Fraction(6, 5))),
        ("latency", ComputePolicy(0.99, Fraction(6, 5))),
        ("batch", ComputePolicy(0.90, Fraction(1))),
    ],
)
def test_compute_is_sized_by_what_the_service_is_for(name: str, policy: ComputePolicy) -> None:
    assert COMPUTE_POLICIES[name] == policy


def test_the_default_is_balanced_in_a_virtual_machine() -> None:
    assert DEFAULT_POLICY.compute == COMPUTE_POLICIES["balanced"]
    assert DEFAULT_POLICY.required_isolation is Isolation.VM


def test_isolation_is_ordered_from_the_weakest() -> None:
    assert ISOLATION_ORDER == (Isolation.SOFT, Isolation.VM, Isolation.HARD)

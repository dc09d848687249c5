"""Eight cards over 28 days: one of each kind that advice must tell apart.

Two hours more than that: a command reads whole hours that have been over for a while, and which
one is the last may change while a test runs.
"""

from support.dcgm_history import Card, always, between, memory_fields, up_to

MINUTES = (28 * 24 + 2) * 60
HAND_WARMER, TWIN, UTIL_ONLY = "GPU-00000001-0a", "GPU-00000002-0a", "GPU-00000003-0a"
PRE_ALLOCATED, PARKED, BUSY = "GPU-00000004-0a", "GPU-00000005-0a", "GPU-00000006-0a"
FREE, GAPS = "GPU-00000007-0a", "GPU-00000008-0a"
SM_ACTIVE, UTIL = "DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_DEV_GPU_UTIL"


def _peak_once_a_day(index: int, count: int) -> float:
    return 3.4 if index % 1440 < 15 else 3.1


def eight_cards() -> list[Card]:
    """Give the cards; the hand-warmer and its twins show the same utilisation gauge."""
    util = between(12, 15)
    small = memory_fields(_peak_once_a_day)
    return [
        Card(
            HAND_WARMER,
            {**small, UTIL: util, SM_ACTIVE: up_to(0.041, 0.06)},
            pod="assistant-0",
            namespace="chat",
        ),
        Card(
            TWIN,
            {**small, UTIL: util, SM_ACTIVE: up_to(0.12, 0.18)},
            pod="ranker-0",
            namespace="search",
        ),
        Card(UTIL_ONLY, {**small, UTIL: util}, pod="assistant-1", namespace="chat"),
        Card(
            PRE_ALLOCATED,
            {**memory_fields(always(36.0)), UTIL: between(20, 60), SM_ACTIVE: up_to(0.2, 0.3)},
            pod="engine-0",
            namespace="chat",
        ),
        Card(
            PARKED,
            {**memory_fields(always(17.0)), UTIL: always(0), SM_ACTIVE: always(0)},
            pod="notebook-0",
            namespace="research",
        ),
        Card(
            BUSY,
            {**memory_fields(between(20, 38)), UTIL: always(99), SM_ACTIVE: between(0.6, 0.95)},
            pod="finetune-0",
            namespace="training",
        ),
        Card(FREE, {**memory_fields(always(0.004)), UTIL: always(0), SM_ACTIVE: always(0)}),
        Card(
            GAPS,
            {**small, UTIL: util, SM_ACTIVE: up_to(0.041, 0.06)},
            pod="assistant-2",
            namespace="chat",
            seen=lambda index, count: index % 120 < 60,
        ),
    ]

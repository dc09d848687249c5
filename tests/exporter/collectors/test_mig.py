"""How a card is cut: instances, their memory, what still fits, and layouts that change."""

from typing import Any

import pynvml
import pytest
from support.pages import failures, values
from support.simulated import (
    BYTES_PER_MIB,
    Shipped,
    Simulate,
    SimulatedNode,
    constant,
    fail_first_instance,
    simulated_card,
    single,
    told,
)

from rightslice.contract.metrics import (
    MIG_FRAGMENTATION_RATIO,
    MIG_FREE_MEMORY_SLICES,
    MIG_INSTANCE_INFO,
    MIG_INSTANCE_MEMORY_TOTAL_BYTES,
    MIG_INSTANCE_MEMORY_USED_BYTES,
    MIG_INSTANCE_OBSERVED_SECONDS_TOTAL,
    MIG_INSTANCES,
    MIG_PLACEABLE_INSTANCES,
    MIG_PLACEMENT_VISIBLE,
    REJECTED_SAMPLES_TOTAL,
    SLICE_MEMORY_COMMITTED_BYTES,
)
from rightslice.contract.spec import Sample
from rightslice.exporter.collectors import ENABLED
from rightslice.exporter.collectors.mig import LAYOUT_SECONDS, collect
from rightslice.exporter.host.nvml.events import address_of
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event

MEMORY_V2, MEMORY_V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"
PROFILE_INFO = "nvmlDeviceGetGpuInstanceProfileInfoV"
EVENT_TYPES = "nvmlDeviceGetSupportedEventTypes"
CARD = ("GPU-0001",)
GIB = 1024**3
ALL_ONES_64 = 2**64 - 1
A100_80GB: dict[str, Any] = {"name": "NVIDIA A100-SXM4-80GB", "memory_total_bytes": 80 * GIB}


def cut(*instances: tuple[str, int], privileged: bool = True, **changes: Any) -> Any:
    """Give an A100 with instances, each a profile and its first slice, and 1 GiB in use."""
    said = tuple(
        MigInstance(profile, start, memory_used_bytes=constant(1 * GIB))
        for profile, start in instances
    )
    return simulated_card(mig=Mig(instances=said, privileged=privileged), **changes)


def read(node: SimulatedNode) -> list[Sample]:
    """Collect once from the node's first card."""
    return list(collect(node.open()[0], 1.0))


def by_profile(samples: list[Sample]) -> dict[str, float]:
    """Give how many more instances of each profile fit."""
    counts = told(samples, MIG_PLACEABLE_INSTANCES)
    return {profile: count for (_, profile), count in counts.items()}


def by_instance(samples: list[Sample], spec: Any) -> dict[str, float]:
    return {instance: value for (_, instance), value in told(samples, spec).items()}


def instance_rows(samples: list[Sample]) -> list[tuple[str, ...]]:
    """Give (GPU instance, compute instance, profile, start, size) of each row."""
    rows = sorted(told(samples, MIG_INSTANCE_INFO))
    return [(gi, ci, profile, start, size) for _, gi, ci, _, profile, start, size in rows]


def states(samples: list[Sample]) -> dict[str, float]:
    return {state: count for (_, state), count in told(samples, MIG_INSTANCES).items()}


def test_a_card_that_is_cut_into_nothing_is_told_as_free_and_unusable(shipped: Shipped) -> None:
    samples = read(shipped("mig-empty"))

    assert states(samples) == {"with_compute": 0, "without_compute": 0}
    assert by_profile(samples) == {
        "1g.10gb": 7,
        "1g.10gb+me": 1,
        "1g.20gb": 4,
        "2g.20gb": 3,
        "3g.40gb": 2,
        "4g.40gb": 1,
        "7g.80gb": 1,
    }
    assert single(samples, MIG_FREE_MEMORY_SLICES) == 8
    assert single(samples, MIG_FRAGMENTATION_RATIO) == 0
    assert single(samples, MIG_PLACEMENT_VISIBLE) == 1
    assert single(samples, SLICE_MEMORY_COMMITTED_BYTES) == 0
    assert instance_rows(samples) == []


def test_a_card_that_is_cut_into_nothing_has_no_utilisation(shipped: Shipped) -> None:
    node = shipped("mig-empty")
    sampler = node.sampler(ENABLED)

    node.sample_rounds(sampler, 130)

    page = values(sampler)
    words = ("_busy_", "_idle_", "_sm_", "_dram_")
    assert not [series for series in page if any(word in series for word in words)]


def test_a_fragmented_card_is_told_with_what_its_holes_still_hold(shipped: Shipped) -> None:
    samples = read(shipped("mig-fragmented"))

    assert by_profile(samples) == {
        "1g.5gb": 4,
        "1g.5gb+me": 1,
        "1g.10gb": 2,
        "2g.10gb": 1,
        "3g.20gb": 0,
        "4g.20gb": 0,
        "7g.40gb": 0,
    }
    assert single(samples, MIG_FREE_MEMORY_SLICES) == 5
    assert single(samples, MIG_FRAGMENTATION_RATIO) == 0.5
    assert single(samples, SLICE_MEMORY_COMMITTED_BYTES) == 3 * 4864 * BYTES_PER_MIB
    assert states(samples) == {"with_compute": 3, "without_compute": 0}
    assert [row[3:] for row in instance_rows(samples)] == [("5", "1"), ("0", "1"), ("1", "1")]


def test_devices_behind_a_hole_in_the_numbering_are_found(simulate: Simulate) -> None:
    samples = read(simulate(cut(("1g.5gb", 0), ("1g.5gb", 3), privileged=False)))

    assert states(samples) == {"with_compute": 2}


def test_two_compute_instances_are_told_each_and_their_memory_once(shipped: Shipped) -> None:
    samples = read(shipped("mig-two-ci"))

    assert instance_rows(samples) == [
        ("10", "", "1g.18gb", "3", "1"),
        ("2", "0", "2c.3g.71gb", "4", "4"),
        ("2", "1", "1c.3g.71gb", "4", "4"),
        ("3", "0", "2g.35gb", "0", "2"),
        ("9", "0", "1g.18gb", "2", "1"),
    ]
    totals = by_instance(samples, MIG_INSTANCE_MEMORY_TOTAL_BYTES)
    # As nvidia-smi shows it on such a card: adding up its rows instead gives half as much again.
    assert totals == {
        "2": 71168 * BYTES_PER_MIB,
        "3": 33024 * BYTES_PER_MIB,
        "9": 16384 * BYTES_PER_MIB,
        "10": 16384 * BYTES_PER_MIB,
    }
    assert single(samples, SLICE_MEMORY_COMMITTED_BYTES) == sum(totals.values())
    used = [sample for sample in samples if sample.spec is MIG_INSTANCE_MEMORY_USED_BYTES]
    assert [sample.labels[1] for sample in used] == ["2", "3", "9"]


def test_an_instance_on_which_nothing_can_run_is_told_as_such(shipped: Shipped) -> None:
    samples = read(shipped("mig-two-ci"))

    assert states(samples) == {"with_compute": 3, "without_compute": 1}
    assert "10" not in by_instance(samples, MIG_INSTANCE_OBSERVED_SECONDS_TOTAL)


def test_a_full_card_is_not_a_fragmented_one(shipped: Shipped) -> None:
    samples = read(shipped("mig-two-ci"))

    assert set(by_profile(samples).values()) == {0}
    assert single(samples, MIG_FREE_MEMORY_SLICES) == 0
    assert told(samples, MIG_FRAGMENTATION_RATIO) == {}


def test_seven_small_instances_leave_one_slice_that_nothing_can_use(simulate: Simulate) -> None:
    samples = read(simulate(cut(*(("1g.5gb", start) for start in range(7)))))

    assert set(by_profile(samples).values()) == {0}
    assert single(samples, MIG_FREE_MEMORY_SLICES) == 1
    assert told(samples, MIG_FRAGMENTATION_RATIO) == {}


def test_beside_a_half_and_a_slice_two_slices_fit_and_no_pair(simulate: Simulate) -> None:
    fits = by_profile(read(simulate(cut(("3g.20gb", 0), ("1g.5gb", 4)))))

    assert (fits["1g.5gb"], fits["1g.10gb"], fits["2g.10gb"]) == (2, 1, 0)


def test_the_media_engines_of_a_card_are_given_away_once(simulate: Simulate) -> None:
    fits = by_profile(read(simulate(cut(("1g.5gb+me", 0)))))

    assert (fits["1g.5gb"], fits["1g.5gb+me"]) == (6, 0)


@pytest.mark.parametrize(
    ("changes", "count", "size"),
    [
        pytest.param({}, 3, "2", id="twice the memory of a slice of a card of 40 GB"),
        pytest.param(A100_80GB, 6, "1", id="the plain slice of a card of 80 GB"),
    ],
)
def test_one_name_means_another_size_on_another_card(
    changes: dict[str, Any], count: int, size: str, simulate: Simulate
) -> None:
    samples = read(simulate(cut(("1g.10gb", 0), **changes)))

    assert by_profile(samples)["1g.10gb"] == count
    assert [row[4] for row in instance_rows(samples)] == [size]


def named(node: SimulatedNode, before: str, after: str) -> None:
    """Let the driver call a profile something else."""
    usual = getattr(node.library, PROFILE_INFO)

    def answer(handle: Any, number: Any, info: Any) -> int:
        code: int = usual(handle, number, info)
        info._obj.name = info._obj.name.replace(before, after).encode()
        return code

    node.answer(PROFILE_INFO, answer)


def test_the_driver_s_name_of_a_profile_is_kept_whatever_it_is(simulate: Simulate) -> None:
    node = simulate(cut(("7g.80gb", 0), **A100_80GB))
    named(node, "7g.80gb", "7g.79gb")

    samples = read(node)

    assert by_profile(samples)["7g.79gb"] == 0
    assert by_profile(samples)["4g.40gb"] == 0
    assert single(samples, MIG_FREE_MEMORY_SLICES) == 0


def test_names_and_sizes_of_an_instance_are_the_profile_s_and_not_of_rounded_memory(
    simulate: Simulate,
) -> None:
    samples = read(simulate(cut(("2g.20gb", 0), **A100_80GB)))

    assert [row[2] for row in instance_rows(samples)] == ["2g.20gb"]


def test_the_unprivileged_are_told_of_devices_and_not_of_places(simulate: Simulate) -> None:
    samples = read(simulate(cut(("3g.20gb", 4), ("1g.5gb", 0), privileged=False)))

    assert instance_rows(samples) == [("2", "0", "3g.20gb", "", ""), ("7", "0", "1g.5gb", "", "")]
    assert single(samples, MIG_PLACEMENT_VISIBLE) == 0
    assert states(samples) == {"with_compute": 2}
    assert by_instance(samples, MIG_INSTANCE_MEMORY_USED_BYTES) == {"2": GIB, "7": GIB}
    assert single(samples, SLICE_MEMORY_COMMITTED_BYTES) == (19968 + 4864) * BYTES_PER_MIB
    absent = (MIG_PLACEABLE_INSTANCES, MIG_FREE_MEMORY_SLICES, MIG_FRAGMENTATION_RATIO)
    assert {sample.spec for sample in samples}.isdisjoint(absent)


def test_being_refused_the_overview_is_no_failure(simulate: Simulate) -> None:
    node = simulate(cut(("3g.20gb", 4), privileged=False))
    sampler = node.sampler(("mig",))

    node.sample_rounds(sampler, 30)

    page = values(sampler)
    assert page['rightslice_collector_success{collector="mig"}'] == 1
    assert not [series for series in page if "failures" in series]


def test_instances_of_two_cards_with_the_same_ids_are_two(simulate: Simulate) -> None:
    node = simulate(cut(("3g.20gb", 0)), cut(("3g.20gb", 0), number=2))
    sampler = node.sampler(("mig",))

    node.sample_rounds(sampler, 1)

    used = [name for name in values(sampler) if name.startswith("rightslice_mig_instance_memory_u")]
    assert len([name for name in used if "peak" not in name]) == 2


def answering(node: SimulatedNode, used_bytes: int) -> None:
    """Let every memory call tell this use."""
    for name in (MEMORY_V2, MEMORY_V1):
        usual = getattr(node.library, name)

        def answer(handle: Any, memory: Any, usual: Any = usual) -> int:
            code: int = usual(handle, memory)
            memory._obj.used = used_bytes
            return code

        node.answer(name, answer)


@pytest.mark.parametrize("used_bytes", [ALL_ONES_64, ALL_ONES_64 - 4095, 5 * GIB])
def test_impossible_memory_is_refused_and_counted_and_the_rest_is_told(
    used_bytes: int, simulate: Simulate
) -> None:
    node = simulate(cut(("1g.5gb", 0)))
    answering(node, used_bytes)

    samples = read(node)

    assert Sample(REJECTED_SAMPLES_TOTAL, 1, ("mig", "out_of_range")) in samples
    assert by_instance(samples, MIG_INSTANCE_MEMORY_USED_BYTES) == {}
    assert by_instance(samples, MIG_INSTANCE_OBSERVED_SECONDS_TOTAL) == {}
    assert by_instance(samples, MIG_INSTANCE_MEMORY_TOTAL_BYTES) == {"7": 4864 * BYTES_PER_MIB}


def test_what_is_promised_is_unknown_while_the_size_of_an_instance_is(simulate: Simulate) -> None:
    node = simulate(cut(("1g.5gb", 0), privileged=False))
    answering(node, ALL_ONES_64)

    assert told(read(node), SLICE_MEMORY_COMMITTED_BYTES) == {}


def test_memory_is_read_once_per_instance_and_round(simulate: Simulate) -> None:
    node = simulate(cut(("1g.5gb", 0), ("1g.5gb", 1)))
    sampler = node.sampler(("gpu_use", "mig"))
    node.sample_rounds(sampler, 2)
    called = node.record_calls()

    node.sample_rounds(sampler, 1)

    assert called.count(MEMORY_V2) == 2


def reshaping(*, privileged: bool) -> tuple[Any, Any, Event]:
    """Give a card that is cut anew at 5.5 s, and one beside it that stays as it is.

    Of the first's instances 7 is gone, 9 is another one, and 4 is new.
    """
    before = (("1g.5gb", 0), ("1g.5gb", 2))
    after = Mig(
        instances=(
            MigInstance("1g.5gb", 2, memory_used_bytes=constant(2 * GIB)),
            MigInstance("2g.10gb", 4, id=4, memory_used_bytes=constant(3 * GIB)),
        ),
        privileged=privileged,
    )
    return (
        cut(*before, privileged=privileged),
        cut(("3g.20gb", 0), number=2, privileged=privileged),
        Event(5.5, 0, mig=after),
    )


def of_instance(name: str, instance: str, uuid: str = "GPU-0001") -> str:
    labels = f'uuid="{uuid}",gpu_instance_id="{instance}"'
    return f"rightslice_mig_instance_{name}{{{labels}}}"


@pytest.mark.parametrize("privileged", [True, False])
@pytest.mark.parametrize("has_events", [True, False], ids=["told by an event", "not told"])
def test_a_card_that_is_cut_anew_costs_one_round_at_most_and_the_others_nothing(
    has_events: bool, privileged: bool, simulate: Simulate
) -> None:
    first, second, event = reshaping(privileged=privileged)
    node = simulate(first, second, events=(event,))
    if not has_events:
        node.fail(EVENT_TYPES, pynvml.NVML_ERROR_NOT_SUPPORTED)
    sampler = node.sampler(("driver_events", "mig"))

    node.sample_rounds(sampler, 5 + int(LAYOUT_SECONDS) + 2)

    page = values(sampler)
    failed = page.get(failures("mig", "GPU-0001", "stale_handle"), 0)
    assert failed <= 1
    assert not [series for series in page if "failures" in series and "GPU-0002" in series]
    assert page[of_instance("observed_seconds_total", "1", "GPU-0002")] == 16
    assert page[of_instance("memory_used_bytes", "9")] == 2 * GIB
    assert page[of_instance("memory_used_bytes", "4")] == 3 * GIB
    assert of_instance("memory_used_bytes", "7") not in page
    assert of_instance("memory_total_bytes", "7") not in page


def test_a_cut_costs_no_collector_more_than_a_round(simulate: Simulate) -> None:
    first, second, event = reshaping(privileged=True)
    node = simulate(first, second, events=(event,))
    sampler = node.sampler()

    node.sample_rounds(sampler, 20)

    failed = {name: count for name, count in values(sampler).items() if "failures" in name}
    assert set(failed.values()) <= {1.0}
    assert not [series for series in failed if "GPU-0002" in series]


def test_a_card_that_is_cut_anew_stays_up(simulate: Simulate) -> None:
    first, second, event = reshaping(privileged=True)
    node = simulate(first, second, events=(event,))
    node.fail(EVENT_TYPES, pynvml.NVML_ERROR_NOT_SUPPORTED)
    sampler = node.sampler()
    up = []

    for _ in range(20):
        node.sample_rounds(sampler, 1)
        up.append(values(sampler)['rightslice_gpu_up{uuid="GPU-0001"}'])

    assert up == [1] * 20


def test_the_peak_of_an_instance_is_not_that_of_the_one_before_it(simulate: Simulate) -> None:
    high = Mig(instances=(MigInstance("1g.5gb", 0, memory_used_bytes=constant(4 * GIB)),))
    low = Mig(instances=(MigInstance("1g.5gb", 0, memory_used_bytes=constant(1 * GIB)),))
    node = simulate(simulated_card(mig=high), events=(Event(5.5, 0, mig=low),))
    sampler = node.sampler(("driver_events", "mig"))
    node.sample_rounds(sampler, 5)
    before = values(sampler)[of_instance("memory_used_peak_bytes", "7")]

    node.sample_rounds(sampler, 5)

    assert before == 4 * GIB
    assert values(sampler)[of_instance("memory_used_peak_bytes", "7")] == 1 * GIB


def test_the_peak_of_an_instance_that_is_gone_leaves_within_its_window(simulate: Simulate) -> None:
    first, second, event = reshaping(privileged=True)
    node = simulate(first, second, events=(event,))
    sampler = node.sampler(("driver_events", "mig"))

    node.sample_rounds(sampler, 5 + 132)

    page = values(sampler)
    assert of_instance("memory_used_peak_bytes", "7") not in page
    assert page[of_instance("memory_used_peak_bytes", "9")] == 2 * GIB


def test_what_is_promised_follows_the_layout(simulate: Simulate) -> None:
    first, second, event = reshaping(privileged=True)
    node = simulate(first, second, events=(event,))
    sampler = node.sampler(("driver_events", "mig"))
    committed = 'rightslice_slice_memory_committed_bytes{uuid="GPU-0001"}'
    node.sample_rounds(sampler, 5)
    before = values(sampler)[committed]

    node.sample_rounds(sampler, 5)

    assert before == 2 * 4864 * BYTES_PER_MIB
    assert values(sampler)[committed] == (4864 + 9856) * BYTES_PER_MIB


def test_when_mig_is_switched_off_its_series_are_gone(simulate: Simulate) -> None:
    off = Event(5.5, 0, mig=Mig(enabled=False, pending=False))
    node = simulate(cut(("1g.5gb", 0)), events=(off,))
    sampler = node.sampler()

    node.sample_rounds(sampler, 200)

    page = values(sampler)
    left = [series for series in page if "_mig_instance" in series and "_total{" not in series]
    assert left == []
    assert "rightslice_slice_memory_committed_bytes" not in {name.split("{")[0] for name in page}


def test_a_profile_that_could_not_be_read_once_is_read_again(simulate: Simulate) -> None:
    def without_the_first(handle: Any, number: Any, info: Any) -> int:
        is_first = number.value == pynvml.NVML_GPU_INSTANCE_PROFILE_1_SLICE
        code: int = pynvml.NVML_ERROR_TIMEOUT if is_first else usual(handle, number, info)
        return code

    node = simulate(cut(("1g.5gb", 0)))
    usual = getattr(node.library, PROFILE_INFO)
    node.answer(PROFILE_INFO, without_the_first)
    sampler = node.sampler(("mig",))
    node.sample_rounds(sampler, 2)
    node.answer(PROFILE_INFO, usual)

    node.sample_rounds(sampler, 2 * int(LAYOUT_SECONDS))

    assert values(sampler).get('rightslice_mig_free_memory_slices{uuid="GPU-0001"}') == 7


def test_a_lost_card_fails_with_its_reason_and_leaves_no_instances(simulate: Simulate) -> None:
    faults: dict[str, int] = {}
    node = simulate(cut(("1g.5gb", 0), faults=faults), cut(("1g.5gb", 0), number=2))
    sampler = node.sampler(("mig",))
    node.sample_rounds(sampler, 2)
    faults["all"] = pynvml.NVML_ERROR_GPU_IS_LOST

    node.sample_rounds(sampler, 2)

    page = values(sampler)
    assert page[failures("mig", "GPU-0001", "lost")] >= 1
    assert of_instance("memory_used_bytes", "7") not in page
    assert page[of_instance("memory_used_bytes", "7", "GPU-0002")] == GIB


def test_an_instance_that_is_not_ours_to_read_hides_no_other(simulate: Simulate) -> None:
    node = simulate(cut(("1g.5gb", 0), ("1g.5gb", 1)))
    usual = getattr(node.library, MEMORY_V2)
    refused: list[Any] = []

    def refusing(handle: Any, memory: Any) -> int:
        """Refuse the first MIG device that is asked."""
        place = address_of(handle)
        if usual(handle, memory) == 0 and memory._obj.total < 10 * 1024**3:
            refused.append(place)
        is_refused = refused and place == refused[0]
        return int(pynvml.NVML_ERROR_NO_PERMISSION) if is_refused else int(usual(handle, memory))

    node.answer(MEMORY_V2, refusing)
    node.fail("nvmlDeviceGetMemoryInfo", pynvml.NVML_ERROR_NO_PERMISSION)
    sampler = node.sampler(("mig",))

    node.sample_rounds(sampler, 3)

    page = values(sampler)
    used = [series for series in page if series.startswith("rightslice_mig_instance_memory_used_b")]
    infos = [series for series in page if series.startswith("rightslice_mig_instance_info")]
    assert (len(used), len(infos)) == (1, 2)
    assert page['rightslice_collector_success{collector="mig"}'] == 1


def test_an_instance_whose_memory_fails_hides_neither_the_others_nor_the_layout(
    simulate: Simulate,
) -> None:
    node = simulate(cut(("1g.5gb", 0), ("1g.5gb", 2)))
    sampler = node.sampler(("mig",))
    node.sample_rounds(sampler, 1)
    fail_first_instance(node, node.host.gpus[0], pynvml.NVML_ERROR_UNKNOWN)

    node.sample_rounds(sampler, 2 * int(LAYOUT_SECONDS))

    page = values(sampler)
    assert page[of_instance("memory_used_bytes", "9")] == GIB
    assert page[of_instance("observed_seconds_total", "9")] == 2 * int(LAYOUT_SECONDS)
    assert page['rightslice_mig_instances{uuid="GPU-0001",state="with_compute"}'] == 2
    assert len([series for series in page if series.startswith("rightslice_mig_instance_inf")]) == 2


def test_memory_that_fails_while_the_cut_is_read_is_missed_for_no_longer(
    simulate: Simulate,
) -> None:
    node = simulate(cut(("1g.5gb", 0), ("1g.5gb", 2), privileged=False))
    sampler = node.sampler(("mig",))
    committed = 'rightslice_slice_memory_committed_bytes{uuid="GPU-0001"}'
    usual = getattr(node.library, MEMORY_V2)
    node.sample_rounds(sampler, 1)
    fail_first_instance(node, node.host.gpus[0], pynvml.NVML_ERROR_UNKNOWN)
    node.sample_rounds(sampler, int(LAYOUT_SECONDS))
    during = committed in values(sampler)
    node.answer(MEMORY_V2, usual)

    node.sample_rounds(sampler, 1)

    assert (during, committed in values(sampler)) == (False, True)


def test_an_instance_whose_memory_fails_is_told_with_the_reason_and_has_no_use(
    simulate: Simulate,
) -> None:
    node = simulate(cut(("1g.5gb", 0), ("1g.5gb", 2)))
    sampler = node.sampler(("mig",))
    node.sample_rounds(sampler, 1)
    fail_first_instance(node, node.host.gpus[0], pynvml.NVML_ERROR_UNKNOWN)

    node.sample_rounds(sampler, 3)

    page = values(sampler)
    assert page[failures("mig", "GPU-0001", "unknown")] == 3
    assert of_instance("memory_used_bytes", "7") not in page
    assert page[of_instance("observed_seconds_total", "7")] == 0


def test_a_cut_that_another_collector_finds_costs_this_one_no_round(simulate: Simulate) -> None:
    first, second, event = reshaping(privileged=True)
    node = simulate(first, second, events=(event,))
    node.fail(EVENT_TYPES, pynvml.NVML_ERROR_NOT_SUPPORTED)
    sampler = node.sampler(("gpu_use", "mig"))

    node.sample_rounds(sampler, 8)

    assert not [series for series in values(sampler) if "failures" in series]

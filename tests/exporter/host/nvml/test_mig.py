"""MIG layouts: holes, shared instances, no privilege, and handles that die."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import (
    BYTES_PER_MIB,
    Simulate,
    calls_of,
    constant,
    fail_first_instance,
    simulated_card,
)

from rightslice.exporter.host.nvml.card import MemoryReading, NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError, Reason
from rightslice.exporter.host.nvml.mig import MigLayout, MigReader, profile_name
from rightslice.exporter.simulate.card import Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event
from rightslice.facts.mig_placement import Placement

MEMORY_V2 = "nvmlDeviceGetMemoryInfo_v2"
MAX_COUNT, BY_INDEX = "nvmlDeviceGetMaxMigDeviceCount", "nvmlDeviceGetMigDeviceHandleByIndex"
PROFILE_INFO = "nvmlDeviceGetGpuInstanceProfileInfoV"
PLACEMENTS = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
INSTANCES, INFO = "nvmlDeviceGetGpuInstances", "nvmlGpuInstanceGetInfo"
HALF = MigInstance("3g.20gb", 0, memory_used_bytes=constant(1000.0))
SMALL_AT_THE_END = MigInstance("1g.5gb", 6)
SHARED_HALF = MigInstance("3g.20gb", 0, memory_used_bytes=constant(1000.0), compute=(1, 2))
HALF_WITHOUT_COMPUTE = MigInstance("3g.20gb", 4, compute=())
HALF_BYTES = 19968 * BYTES_PER_MIB


def cut(*instances: MigInstance, **changes: Any) -> Any:
    """Give an A100 cut into these instances."""
    return simulated_card(mig=Mig(instances=instances, **changes))


def layout_of(card: NvmlCard) -> MigLayout:
    return card.reader(MigReader).layout()


def memory_of(card: NvmlCard) -> MemoryReading | None:
    """Read the memory of the card's first instance."""
    reader = card.reader(MigReader)
    return reader.memory(reader.layout().instances[0])


def test_an_instance_is_told_with_its_profile_place_and_device(simulate: Simulate) -> None:
    (card,) = simulate(cut(HALF)).open()

    (instance,) = layout_of(card).instances

    assert (instance.gpu_instance_id, instance.name) == (1, "3g.20gb")
    assert instance.placement == Placement(0, 4)
    assert instance.profile is not None
    assert instance.profile.memory_bytes == HALF_BYTES
    (device,) = instance.devices
    assert device.uuid.startswith("MIG-")
    assert (device.profile, device.compute_instance_id) == ("3g.20gb", 0)


def test_holes_in_the_numbering_of_devices_are_passed_over(simulate: Simulate) -> None:
    node = simulate(cut(HALF, SMALL_AT_THE_END))
    (card,) = node.open()
    asked = calls_of(node, BY_INDEX)

    instances = layout_of(card).instances

    assert [instance.name for instance in instances] == ["3g.20gb", "1g.5gb"]
    assert [len(instance.devices) for instance in instances] == [1, 1]
    assert len(asked) == 7


def test_a_device_that_is_not_ours_to_open_hides_no_other_and_makes_places_unknown(
    simulate: Simulate,
) -> None:
    node = simulate(cut(HALF, SMALL_AT_THE_END))
    usual = getattr(node.library, BY_INDEX)
    codes = iter((pynvml.NVML_ERROR_NO_PERMISSION,))
    node.answer(BY_INDEX, lambda *arguments: next(codes, None) or usual(*arguments))
    (card,) = node.open()

    layout = layout_of(card)

    assert [instance.name for instance in layout.instances] == ["1g.5gb"]
    assert layout.profiles is None


def test_two_compute_instances_share_one_instance_and_its_memory(simulate: Simulate) -> None:
    (card,) = simulate(cut(SHARED_HALF)).open()

    (instance,) = layout_of(card).instances

    assert [device.profile for device in instance.devices] == ["1c.3g.20gb", "2c.3g.20gb"]
    assert [device.compute_instance_id for device in instance.devices] == [0, 1]
    assert instance.name == "3g.20gb"
    assert memory_of(card) == MemoryReading(HALF_BYTES, 1000, 0)


def test_an_instance_without_a_compute_instance_is_seen_and_has_no_memory(
    simulate: Simulate,
) -> None:
    (card,) = simulate(cut(HALF_WITHOUT_COMPUTE)).open()

    (instance,) = layout_of(card).instances

    assert (instance.name, instance.placement) == ("3g.20gb", Placement(4, 4))
    assert instance.devices == ()
    assert memory_of(card) is None


def test_a_card_that_is_not_cut_yet_has_no_instance(simulate: Simulate) -> None:
    (card,) = simulate(cut()).open()

    layout = layout_of(card)

    assert layout.instances == ()
    assert layout.unit_count == 8


def test_profiles_are_told_with_their_legal_places(simulate: Simulate) -> None:
    (card,) = simulate(cut()).open()

    profiles = {profile.name: profile for profile in layout_of(card).profiles or ()}

    assert profiles["3g.20gb"].placements == (Placement(0, 4), Placement(4, 4))
    assert (profiles["3g.20gb"].max_count, profiles["3g.20gb"].slice_count) == (2, 3)
    assert profiles["1g.5gb+me"].max_count == 1
    assert profiles["7g.40gb"].placements == (Placement(0, 8),)


def test_places_are_those_of_the_instance_and_not_those_of_its_devices(
    simulate: Simulate,
) -> None:
    (card,) = simulate(cut(HALF, SMALL_AT_THE_END)).open()

    places = [instance.placement for instance in layout_of(card).instances]

    assert places == [Placement(0, 4), Placement(6, 1)]


def test_who_may_not_see_places_still_sees_the_devices(simulate: Simulate) -> None:
    (card,) = simulate(cut(SHARED_HALF, SMALL_AT_THE_END, privileged=False)).open()

    layout = layout_of(card)

    assert layout.profiles is None
    assert layout.unit_count is None
    assert [(row.name, row.profile, row.placement) for row in layout.instances] == [
        ("3g.20gb", None, None),
        ("1g.5gb", None, None),
    ]
    assert [len(row.devices) for row in layout.instances] == [2, 1]


def test_who_may_not_see_places_still_reads_the_memory_of_instances(simulate: Simulate) -> None:
    (card,) = simulate(cut(HALF, privileged=False)).open()

    assert memory_of(card) == MemoryReading(HALF_BYTES, 1000, 0)


def test_who_may_not_see_places_sees_no_instance_without_devices(simulate: Simulate) -> None:
    (card,) = simulate(cut(HALF, HALF_WITHOUT_COMPUTE, privileged=False)).open()

    assert [row.gpu_instance_id for row in layout_of(card).instances] == [1]


def test_a_driver_that_tells_no_profile_still_shows_the_devices(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    node.lack(PROFILE_INFO)
    (card,) = node.open()

    assert [row.name for row in layout_of(card).instances] == ["3g.20gb"]


def test_an_instance_of_a_profile_newer_than_the_binding_still_shows_its_devices(
    simulate: Simulate,
) -> None:
    node = simulate(cut(HALF, SMALL_AT_THE_END))
    usual = getattr(node.library, PROFILE_INFO)

    def without_halves(device: Any, number: Any, info: Any) -> int:
        if number.value == pynvml.NVML_GPU_INSTANCE_PROFILE_3_SLICE:
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        code: int = usual(device, number, info)
        return code

    node.answer(PROFILE_INFO, without_halves)
    (card,) = node.open()

    assert {row.name for row in layout_of(card).instances} == {"3g.20gb", "1g.5gb"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(BY_INDEX, id="handle"),
        pytest.param(INSTANCES, id="instances"),
        pytest.param(INFO, id="instance"),
        pytest.param("nvmlDeviceGetGpuInstanceId", id="instance id"),
        pytest.param("nvmlDeviceGetComputeInstanceId", id="compute instance id"),
        pytest.param(MAX_COUNT, id="device count"),
    ],
)
def test_a_layout_that_changes_while_it_is_read_is_a_failure(name: str, simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    node.fail(name, pynvml.NVML_ERROR_INVALID_ARGUMENT)

    with pytest.raises(NvmlError, match=name) as failure:
        layout_of(card)

    assert failure.value.reason == Reason.STALE


def test_a_layout_is_read_once_until_it_is_forgotten(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    first = layout_of(card)
    asked_count = node.library.call_count

    second = layout_of(card)

    assert second is first
    assert node.library.call_count == asked_count


def test_profiles_and_legal_places_are_read_once(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    layout_of(card)
    asked = [calls_of(node, name) for name in (PROFILE_INFO, PLACEMENTS)]
    card.reader(MigReader).forget()

    layout_of(card)

    assert asked == [[], []]


def test_a_device_of_the_past_is_told_and_takes_no_card_down(simulate: Simulate) -> None:
    node = simulate(cut(HALF), events=(Event(10.0, 0, mig=Mig()),))
    (card,) = node.open()
    layout_of(card)
    node.clock.advance(10)
    card.begin_round()
    card.memory()

    with pytest.raises(NvmlError) as failure:
        memory_of(card)

    assert failure.value.reason == Reason.STALE
    assert card.is_up


def test_after_a_device_of_the_past_the_layout_is_read_anew(simulate: Simulate) -> None:
    node = simulate(cut(HALF), events=(Event(10.0, 0, mig=Mig(instances=(SMALL_AT_THE_END,))),))
    (card,) = node.open()
    layout_of(card)
    node.clock.advance(10)
    with pytest.raises(NvmlError):
        memory_of(card)

    names = [row.name for row in layout_of(card).instances]

    assert names == ["1g.5gb"]


def test_memory_of_an_instance_is_read_once_in_a_round(simulate: Simulate) -> None:
    node = simulate(cut(SHARED_HALF))
    (card,) = node.open()
    asked = calls_of(node, MEMORY_V2)
    memory_of(card)
    memory_of(card)
    in_one_round = len(asked)
    card.begin_round()

    memory_of(card)

    assert (in_one_round, len(asked)) == (1, 2)


def test_instances_with_the_same_profile_have_memory_of_their_own(simulate: Simulate) -> None:
    other_half = MigInstance("3g.20gb", 4, memory_used_bytes=constant(2000.0))
    (card,) = simulate(cut(HALF, other_half)).open()
    reader = card.reader(MigReader)

    readings = [reader.memory(instance) for instance in reader.layout().instances]

    assert readings == [
        MemoryReading(HALF_BYTES, 1000, 0),
        MemoryReading(HALF_BYTES, 2000, 0),
    ]


def test_a_layout_that_could_not_be_read_anew_is_tried_again(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    layout_of(card)
    card.reader(MigReader).forget()
    usual = getattr(node.library, BY_INDEX)
    node.fail(BY_INDEX, pynvml.NVML_ERROR_IN_USE)
    with pytest.raises(NvmlError, match=BY_INDEX):
        layout_of(card)
    node.answer(BY_INDEX, usual)

    assert [row.name for row in layout_of(card).instances] == ["3g.20gb"]


def test_a_layout_that_was_forgotten_is_read_as_it_is_now(simulate: Simulate) -> None:
    node = simulate(cut(HALF), events=(Event(10.0, 0, mig=Mig(instances=(SMALL_AT_THE_END,))),))
    (card,) = node.open()
    before = [row.name for row in layout_of(card).instances]
    node.clock.advance(10)

    card.reader(MigReader).forget()

    assert before == ["3g.20gb"]
    assert [row.name for row in layout_of(card).instances] == ["1g.5gb"]


@pytest.fixture
def keys(simulate: Simulate) -> Callable[..., tuple[str, str]]:
    """Give the key of the first instance before and after the events."""

    def read(*events: Event) -> tuple[str, str]:
        node = simulate(cut(HALF), events=events)
        (card,) = node.open()
        before = layout_of(card).instances[0].key
        node.clock.advance(60)
        card.reader(MigReader).forget()
        return before, layout_of(card).instances[0].key

    return read


def test_an_instance_made_anew_in_the_same_place_has_another_key(
    keys: Callable[..., tuple[str, str]],
) -> None:
    before, after = keys(Event(10.0, 0, mig=Mig()), Event(11.0, 0, mig=Mig(instances=(HALF,))))

    assert before.startswith("3g.20gb MIG-")
    assert after.startswith("3g.20gb MIG-")
    assert before != after


def test_an_instance_that_stays_keeps_its_key_when_others_come(
    keys: Callable[..., tuple[str, str]],
) -> None:
    before, after = keys(Event(10.0, 0, mig=Mig(instances=(HALF, SMALL_AT_THE_END))))

    assert before == after


def test_a_device_that_stays_keeps_what_is_known_of_it(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    node.fail(MEMORY_V2, pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH)
    (card,) = node.open()
    memory_of(card)
    asked = calls_of(node, MEMORY_V2)

    card.reader(MigReader).forget()
    memory = memory_of(card)

    assert memory == MemoryReading(HALF_BYTES, 1000, None)
    assert asked == []


def test_a_device_that_stays_is_asked_by_its_new_handle(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    first = layout_of(card).instances[0].devices[0].handle

    card.reader(MigReader).forget()
    second = layout_of(card).instances[0].devices[0].handle

    assert second is not first


def test_memory_of_an_instance_is_told_by_the_first_version_of_old_drivers(
    simulate: Simulate,
) -> None:
    node = simulate(cut(HALF))
    node.lack(MEMORY_V2)
    (card,) = node.open()

    assert memory_of(card) == MemoryReading(HALF_BYTES, 1000, None)


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        pytest.param("MIG 1g.5gb", "1g.5gb", id="profile"),
        pytest.param("MIG 7g.79gb", "7g.79gb", id="odd size"),
        pytest.param("MIG 1g.10gb+me.all", "1g.10gb+me.all", id="media engines"),
        pytest.param("NVIDIA A100-SXM4-40GB MIG 3g.20gb", "3g.20gb", id="device"),
        pytest.param("NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "1c.3g.20gb", id="part of one"),
        pytest.param("NVIDIA GH200 480GB MIG 1g.12gb", "1g.12gb", id="other card"),
        pytest.param("1g.5gb", "1g.5gb", id="without the word"),
        pytest.param("", "", id="empty"),
    ],
)
def test_a_profile_is_what_stands_behind_the_word(text: str, profile: str) -> None:
    assert profile_name(text) == profile


def test_an_odd_profile_of_the_driver_keeps_its_name(simulate: Simulate) -> None:
    def odd(_: Any, number: Any, info: Any) -> int:
        if number.value:
            return int(pynvml.NVML_ERROR_NOT_SUPPORTED)
        info._obj.id, info._obj.instanceCount, info._obj.memorySizeMB = 0, 1, 81000
        info._obj.sliceCount, info._obj.name = 7, "MIG 7g.79gb"
        return int(pynvml.NVML_SUCCESS)

    node = simulate(cut())
    node.answer(PROFILE_INFO, odd)
    (card,) = node.open()

    (profile,) = layout_of(card).profiles or ()

    assert (profile.name, profile.slice_count) == ("7g.79gb", 7)
    assert profile.memory_bytes == 81000 * BYTES_PER_MIB


@pytest.mark.parametrize(
    ("mig", "is_pending"),
    [
        pytest.param(Mig(), True, id="on"),
        pytest.param(Mig(enabled=False, pending=True), True, id="on after the next reset"),
        pytest.param(Mig(pending=False), False, id="off after the next reset"),
        pytest.param(Mig(enabled=False, pending=False), False, id="off"),
    ],
)
def test_a_mode_that_waits_for_a_reset_is_told(
    mig: Mig, is_pending: bool, simulate: Simulate
) -> None:
    (card,) = simulate(simulated_card(mig=mig)).open()

    assert card.reader(MigReader).is_pending() is is_pending


def test_a_card_that_cannot_be_cut_has_no_mode_and_no_instance(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card(name="NVIDIA L4")).open()

    assert card.reader(MigReader).is_pending() is None
    assert layout_of(card).instances == ()


def test_an_instance_whose_memory_fails_hides_that_of_no_other(simulate: Simulate) -> None:
    other_half = MigInstance("3g.20gb", 4, memory_used_bytes=constant(2000.0))
    node = simulate(cut(HALF, other_half))
    (card,) = node.open()
    fail_first_instance(node, card, pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(NvmlError, match=MEMORY_V2):
        memory_of(card)

    memory = card.reader(MigReader).memory(layout_of(card).instances[1])

    assert memory == MemoryReading(HALF_BYTES, 2000, 0)


def test_memory_that_fails_for_another_reason_than_the_handle_keeps_the_layout(
    simulate: Simulate,
) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    layout = layout_of(card)
    fail_first_instance(node, card, pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(NvmlError):
        memory_of(card)

    assert layout_of(card) is layout


def test_memory_that_fails_is_asked_for_once_in_a_round_and_told_each_time(
    simulate: Simulate,
) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    fail_first_instance(node, card, pynvml.NVML_ERROR_UNKNOWN)
    asked = calls_of(node, MEMORY_V2)

    for _ in range(2):
        with pytest.raises(NvmlError, match=MEMORY_V2):
            memory_of(card)

    assert len(asked) == 1


def test_memory_that_failed_is_asked_for_anew_in_the_next_round(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    usual = getattr(node.library, MEMORY_V2)
    fail_first_instance(node, card, pynvml.NVML_ERROR_UNKNOWN)
    with pytest.raises(NvmlError):
        memory_of(card)
    node.answer(MEMORY_V2, usual)

    card.begin_round()

    assert memory_of(card) == MemoryReading(HALF_BYTES, 1000, 0)


def test_memory_that_is_not_ours_to_read_is_none(simulate: Simulate) -> None:
    node = simulate(cut(HALF))
    (card,) = node.open()
    fail_first_instance(node, card, pynvml.NVML_ERROR_NO_PERMISSION)

    assert memory_of(card) is None


def test_an_instance_made_anew_under_an_old_id_does_not_fail_for_the_one_before(
    simulate: Simulate,
) -> None:
    events = (Event(10.0, 0, mig=Mig()), Event(11.0, 0, mig=Mig(instances=(HALF,))))
    node = simulate(cut(HALF), events=events)
    (card,) = node.open()
    layout_of(card)
    node.clock.advance(12)
    card.begin_round()
    with pytest.raises(NvmlError):
        memory_of(card)

    assert memory_of(card) == MemoryReading(HALF_BYTES, 1000, 0)

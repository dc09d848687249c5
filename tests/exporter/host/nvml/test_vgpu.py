"""vGPUs as a host sees them, and the licence as a guest sees it."""

from collections.abc import Callable
from typing import Any

import pynvml
import pytest
from support.simulated import Simulate, SimulatedNode, calls_of, constant, simulated_card, text

from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.errors import NvmlError
from rightslice.exporter.host.nvml.vgpu import (
    MOST_VGPUS,
    OLD_READINGS,
    VgpuInstance,
    VgpuReader,
    VgpuType,
    guest_licence,
)
from rightslice.exporter.simulate.card import Vgpu
from rightslice.exporter.simulate.card import VgpuInstance as Guest

ACTIVE, UTILISATION = "nvmlDeviceGetActiveVgpus", "nvmlDeviceGetVgpuUtilization"
UUID, TYPE = "nvmlVgpuInstanceGetUUID", "nvmlVgpuInstanceGetType"
USAGE, LICENCE = "nvmlVgpuInstanceGetFbUsage", "nvmlVgpuInstanceGetLicenseInfo_v2"
TYPE_NAME, VM_ID = "nvmlVgpuTypeGetName", "nvmlVgpuInstanceGetVmID"
STATE_V2, STATE = "nvmlDeviceGetVgpuSchedulerState_v2", "nvmlDeviceGetVgpuSchedulerState"
FEATURES = "nvmlDeviceGetGridLicensableFeatures_v4"
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
INSUFFICIENT_SIZE = int(pynvml.NVML_ERROR_INSUFFICIENT_SIZE)
FIRST_ID, SECOND_ID = 0x100, 0x101
QUARTER = VgpuType("A16-4Q", 4 << 30, 4)


def guest(used_bytes: float = 1000.0, busy_ratio: float = 0.25, *, licensed: bool = True) -> Guest:
    return Guest("A16-4Q", constant(used_bytes), constant(busy_ratio), licensed)


def hosting(*guests: Guest, scheduler: str = "best_effort", **changes: Any) -> Any:
    """Give a card that a host has cut for these guests."""
    vgpu = Vgpu(scheduler=scheduler, instances=guests)
    return simulated_card(name="NVIDIA A16", virtualization="host_vgpu", vgpu=vgpu, **changes)


def instances_of(card: NvmlCard) -> list[VgpuInstance]:
    instances = card.reader(VgpuReader).instances()
    assert instances is not None
    return instances


def samples(*rows: tuple[int, int, int]) -> Callable[..., int]:
    """Make a utilisation call that gives these rows: time in microseconds, instance, percent."""

    def answer(_: Any, since: Any, value_type: Any, count: Any, slots: Any) -> int:
        room, count._obj.value = count._obj.value, len(rows)
        if room < len(rows):
            return INSUFFICIENT_SIZE
        for slot, (stamp_us, instance, percent) in zip(slots, rows, strict=False):
            slot.timeStamp, slot.vgpuInstance = stamp_us, instance
            slot.smUtil.uiVal = percent
        return int(pynvml.NVML_SUCCESS)

    return answer


def busy(node: SimulatedNode, *rows: tuple[int, int, int]) -> list[float | None]:
    """Give how busy each guest was by these rows."""
    node.answer(UTILISATION, samples(*rows))
    return [instance.busy_percent for instance in instances_of(node.host.gpus[0])]


def test_a_guest_is_told_with_its_type_memory_load_and_licence(simulate: Simulate) -> None:
    node = simulate(hosting(guest(), guest(2000.0, 0.5, licensed=False)))
    (card,) = node.open()
    instances_of(card)
    node.clock.advance(5)

    first, second = instances_of(card)

    assert (first.type, second.type) == (QUARTER, QUARTER)
    assert (first.memory_used_bytes, second.memory_used_bytes) == (1000, 2000)
    assert (first.busy_percent, second.busy_percent) == (25.0, 50.0)
    assert (first.is_licensed, second.is_licensed) == (True, False)
    assert first.uuid != second.uuid


def test_memory_beyond_four_gibibytes_is_told_whole(simulate: Simulate) -> None:
    large = Guest("A16-16Q", constant(float(9 << 30)), constant(0.0))
    (card,) = simulate(hosting(large)).open()

    assert instances_of(card)[0].memory_used_bytes == 9 << 30


def test_a_host_without_guests_has_none(simulate: Simulate) -> None:
    node = simulate(hosting())
    (card,) = node.open()
    asked = calls_of(node, UTILISATION)

    assert instances_of(card) == []
    assert asked == []


def test_a_card_that_hosts_nobody_is_no_host_and_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = calls_of(node, ACTIVE)
    reader = card.reader(VgpuReader)

    assert [reader.instances(), reader.instances()] == [None, None]
    assert len(asked) == 1


def test_more_guests_than_our_buffer_holds_are_listed(simulate: Simulate) -> None:
    guests = [guest() for _ in range(MOST_VGPUS + 1)]
    (card,) = simulate(hosting(*guests)).open()

    assert len(instances_of(card)) == MOST_VGPUS + 1


def test_more_samples_than_our_buffer_holds_are_read(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.open()
    busy(node, (1, FIRST_ID, 10))

    assert busy(node, *((stamp_us, FIRST_ID, 40) for stamp_us in range(2, 300))) == [40.0]


def test_samples_that_never_stop_growing_are_a_failure(simulate: Simulate) -> None:
    node = simulate(hosting(guest(), faults={UTILISATION: INSUFFICIENT_SIZE}))
    (card,) = node.open()
    asked = calls_of(node, UTILISATION)

    with pytest.raises(NvmlError, match="Insufficient Size"):
        instances_of(card)

    assert len(asked) == 3


@pytest.mark.parametrize(
    ("name", "code"),
    [
        pytest.param(UUID, pynvml.NVML_ERROR_NOT_FOUND, id="UUID not found"),
        pytest.param(UUID, pynvml.NVML_ERROR_INVALID_ARGUMENT, id="UUID invalid"),
        pytest.param(TYPE, pynvml.NVML_ERROR_NOT_FOUND, id="type not found"),
        pytest.param(TYPE, pynvml.NVML_ERROR_INVALID_ARGUMENT, id="type invalid"),
    ],
)
def test_a_guest_that_ends_between_list_and_reading_is_left_out(
    name: str, code: int, simulate: Simulate
) -> None:
    node = simulate(hosting(guest(), guest(2000.0)))
    usual = getattr(node.library, name)

    def answer(instance: Any, *arguments: Any) -> int:
        if instance.value == FIRST_ID:
            return code
        found: int = usual(instance, *arguments)
        return found

    node.answer(name, answer)
    (card,) = node.open()

    assert [instance.memory_used_bytes for instance in instances_of(card)] == [2000]


@pytest.mark.parametrize("name", [UUID, TYPE], ids=["UUID", "type"])
def test_a_guest_that_cannot_be_read_has_not_ended(name: str, simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.fail(name, pynvml.NVML_ERROR_UNKNOWN)
    (card,) = node.open()

    with pytest.raises(NvmlError, match=name):
        instances_of(card)


def test_memory_and_licence_that_are_not_told_are_unknown(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.fail(USAGE, NOT_SUPPORTED)
    node.fail(LICENCE, NOT_SUPPORTED)
    (card,) = node.open()

    (instance,) = instances_of(card)

    assert (instance.memory_used_bytes, instance.is_licensed) == (None, None)


def test_a_guest_is_told_with_its_virtual_machine(simulate: Simulate) -> None:
    machines = [Guest("A16-4Q", vm_id=vm_id) for vm_id in ("17", "18")]
    node = simulate(hosting(*machines))
    (card,) = node.open()
    asked = calls_of(node, VM_ID)
    reader = card.reader(VgpuReader)

    guests = reader.guests()

    assert guests is not None
    assert [(row.number, row.vm_id, row.gpu_instance_id) for row in guests] == [
        (FIRST_ID, "17", ""),
        (SECOND_ID, "18", ""),
    ]
    assert reader.guests() == guests
    assert len(asked) == 2


def test_a_number_that_was_given_again_is_another_guest(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    (card,) = node.open()
    reader = card.reader(VgpuReader)
    reader.guests()
    node.answer(UUID, text(b"another"))
    node.answer(VM_ID, lambda *arguments: text(b"19")(*arguments[:3]))

    guests = reader.guests()

    assert guests is not None
    assert [(row.uuid, row.vm_id) for row in guests] == [("another", "19")]


def test_shares_are_those_since_they_were_last_taken_whoever_else_reads(
    simulate: Simulate,
) -> None:
    node = simulate(hosting(guest(), guest()))
    (card,) = node.open()
    reader = card.reader(VgpuReader)
    busy(node, (1_000_000, FIRST_ID, 10))
    busy(node, (2_000_000, FIRST_ID, 20))
    assert busy(node, (3_000_000, FIRST_ID, 40)) == [40.0, None]

    assert reader.take_shares() == {FIRST_ID: 0.3}
    assert reader.take_shares() == {}


def test_shares_that_nobody_takes_go_with_their_guest(simulate: Simulate) -> None:
    node = simulate(hosting(guest(), guest()))
    (card,) = node.open()
    busy(node, (1_000_000, SECOND_ID, 10))
    busy(node, (2_000_000, SECOND_ID, 20))
    node.answer(ACTIVE, only_the_first)

    busy(node, (3_000_000, FIRST_ID, 40))

    assert card.reader(VgpuReader).take_shares() == {FIRST_ID: 0.4}


def only_the_first(_: Any, count: Any, numbers: Any) -> int:
    count._obj.value, numbers[0] = 1, FIRST_ID
    return int(pynvml.NVML_SUCCESS)


@pytest.mark.parametrize(
    ("told", "name"),
    [
        pytest.param(b"GRID A100D-4C", "A100D-4C", id="old vendor's word"),
        pytest.param(b"NVIDIA A16-1Q", "A16-1Q", id="new vendor's word"),
        pytest.param(b"A16-1Q", "A16-1Q", id="without it"),
        pytest.param(b"NVIDIA RTX Pro 6000-8Q", "RTX Pro 6000-8Q", id="with blanks"),
        pytest.param(b"GRID A16-1Q\xff", "A16-1Q\ufffd", id="not UTF-8"),
    ],
)
def test_the_vendor_s_word_is_no_part_of_a_type(told: bytes, name: str, simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.answer(TYPE_NAME, text(told))
    (card,) = node.open()

    assert instances_of(card)[0].type.name == name


def test_a_type_is_read_once(simulate: Simulate) -> None:
    node = simulate(hosting(guest(), guest()))
    (card,) = node.open()
    asked = calls_of(node, TYPE_NAME)

    instances_of(card)
    instances_of(card)

    assert len(asked) == 1


def test_a_type_that_cannot_be_read_is_a_failure(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.fail(TYPE_NAME, pynvml.NVML_ERROR_UNKNOWN)
    (card,) = node.open()

    with pytest.raises(NvmlError, match=TYPE_NAME):
        instances_of(card)


def test_the_load_is_the_mean_of_samples_newer_than_the_last_reading(simulate: Simulate) -> None:
    node = simulate(hosting(guest(), guest()))
    node.open()
    first = busy(node, (1_000_000, FIRST_ID, 10), (1_000_000, SECOND_ID, 50))

    second = busy(
        node,
        (1_000_000, FIRST_ID, 10),
        (2_000_000, FIRST_ID, 20),
        (3_000_000, FIRST_ID, 40),
        (1_000_000, SECOND_ID, 50),
    )

    assert first == [None, None]
    assert second == [30.0, None]


def test_the_driver_is_asked_only_for_samples_since_the_newest_one(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    (card,) = node.open()
    node.answer(UTILISATION, samples((6_000_000, FIRST_ID, 10)))
    asked = calls_of(node, UTILISATION)

    instances_of(card)
    instances_of(card)

    assert [since_us.value for _, since_us, *_ in asked] == [0, 6_000_000]


@pytest.mark.parametrize(
    "row",
    [
        pytest.param((0, FIRST_ID, 10), id="unused slot"),
        pytest.param((1_000_000, FIRST_ID, 101), id="above a hundred"),
        pytest.param((1_000_000, FIRST_ID, 0xFFFFFFFF), id="all ones"),
        pytest.param((1_000_000, 0x999, 10), id="of nobody"),
    ],
)
def test_a_sample_that_is_none_tells_no_load(row: tuple[int, int, int], simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.open()

    assert busy(node, row) == [None]


@pytest.mark.parametrize(
    "code",
    [
        pytest.param(pynvml.NVML_ERROR_NOT_SUPPORTED, id="not supported"),
        pytest.param(pynvml.NVML_ERROR_NOT_FOUND, id="not found"),
        pytest.param(pynvml.NVML_ERROR_NO_DATA, id="no data"),
    ],
)
def test_guests_without_samples_are_listed_without_a_load(code: int, simulate: Simulate) -> None:
    (card,) = simulate(hosting(guest(), faults={UTILISATION: code})).open()

    assert [instance.busy_percent for instance in instances_of(card)] == [None]


@pytest.mark.parametrize(
    ("scheduler", "policy"),
    [
        pytest.param("best_effort", "vgpu_best_effort", id="best effort"),
        pytest.param("equal_share", "vgpu_equal_share", id="equal share"),
        pytest.param("fixed_share", "vgpu_fixed_share", id="fixed share"),
    ],
)
@pytest.mark.parametrize(
    "faults",
    [
        pytest.param({}, id="second version"),
        pytest.param({STATE_V2: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}, id="first version"),
    ],
)
def test_the_policy_is_told_by_either_version(
    scheduler: str, policy: str, faults: dict[str, int], simulate: Simulate
) -> None:
    (card,) = simulate(hosting(scheduler=scheduler, faults=faults)).open()

    assert card.reader(VgpuReader).policy() == policy


def test_the_first_version_is_not_asked_where_the_second_tells(simulate: Simulate) -> None:
    node = simulate(hosting())
    (card,) = node.open()
    asked = calls_of(node, STATE)

    card.reader(VgpuReader).policy()

    assert asked == []


def test_a_policy_newer_than_this_module_is_unknown(simulate: Simulate) -> None:
    def newer(_: Any, state: Any) -> int:
        state._obj.schedulerPolicy = 99
        return int(pynvml.NVML_SUCCESS)

    node = simulate(hosting())
    node.answer(STATE_V2, newer)
    (card,) = node.open()

    assert card.reader(VgpuReader).policy() is None


def test_a_card_that_hosts_nobody_has_no_policy_and_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card())
    (card,) = node.open()
    asked = [calls_of(node, name) for name in (STATE_V2, STATE)]
    reader = card.reader(VgpuReader)

    assert [reader.policy(), reader.policy()] == [None, None]
    assert [len(calls) for calls in asked] == [1, 1]


@pytest.mark.parametrize("licensed", [True, False], ids=["licensed", "unlicensed"])
def test_a_guest_knows_whether_it_is_licensed(licensed: bool, simulate: Simulate) -> None:
    vgpu = Vgpu(licensed=licensed)
    (card,) = simulate(simulated_card(virtualization="vgpu", vgpu=vgpu)).open()

    assert guest_licence(card) is licensed


def test_a_card_that_needs_no_licence_has_none(simulate: Simulate) -> None:
    (card,) = simulate(simulated_card()).open()

    assert guest_licence(card) is None


def test_a_driver_that_tells_no_licence_is_asked_once(simulate: Simulate) -> None:
    node = simulate(simulated_card(virtualization="vgpu", faults={FEATURES: NOT_SUPPORTED}))
    (card,) = node.open()
    asked = calls_of(node, FEATURES)

    assert [guest_licence(card), guest_licence(card)] == [None, None]
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("old_count", "expected"),
    [
        pytest.param(OLD_READINGS - 1, [None], id="not yet"),
        pytest.param(OLD_READINGS, [40.0], id="from then on"),
    ],
)
def test_after_some_readings_of_old_samples_only_the_clock_was_set_back(
    old_count: int, expected: list[float | None], simulate: Simulate
) -> None:
    node = simulate(hosting(guest()))
    node.open()
    busy(node, (9_000_000, FIRST_ID, 10))
    old = [busy(node, (stamp_us, FIRST_ID, 20)) for stamp_us in range(1, old_count + 1)]

    later = busy(node, (1_000_000, FIRST_ID, 40))

    assert old == [[None]] * old_count
    assert later == expected


def test_a_new_sample_between_old_ones_sets_no_clock_back(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.open()
    old = (1_000_000, FIRST_ID, 20)
    busy(node, (9_000_000, FIRST_ID, 10))
    told = [busy(node, old) for _ in range(OLD_READINGS - 1)]
    busy(node, (9_500_000, FIRST_ID, 30))

    told += [busy(node, old) for _ in range(OLD_READINGS - 1)]

    assert told == [[None]] * len(told)
    assert busy(node, (2_000_000, FIRST_ID, 40)) == [None]


def test_unused_slots_set_no_clock_back(simulate: Simulate) -> None:
    node = simulate(hosting(guest()))
    node.open()
    busy(node, (9_000_000, FIRST_ID, 10))
    for _ in range(OLD_READINGS):
        busy(node, (0, FIRST_ID, 0))

    assert busy(node, (9_000_000, FIRST_ID, 10)) == [None]


def test_a_clock_set_back_is_also_found_where_the_driver_gives_new_samples_only(
    simulate: Simulate,
) -> None:
    node = simulate(hosting(guest()))
    (card,) = node.open()
    instances_of(card)
    node.clock.advance(-3600)
    told = []
    for _ in range(OLD_READINGS + 3):
        node.clock.advance(5)
        told += [instance.busy_percent for instance in instances_of(card)]

    assert told[0] is None
    assert told[-2:] == [25.0, 25.0]

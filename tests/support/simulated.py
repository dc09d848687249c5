"""Simulated cards and drivers under the real binding, for the tests of the node side."""

import ctypes
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pynvml

from rightslice.contract.spec import MetricSpec, Sample
from rightslice.exporter.collectors import ENABLED, load
from rightslice.exporter.host.clock import Clock, ManualClock
from rightslice.exporter.host.host import Host
from rightslice.exporter.host.nvml.card import NvmlCard
from rightslice.exporter.host.nvml.events import address_of
from rightslice.exporter.host.nvml.mig import MigReader
from rightslice.exporter.sampler import Identity, Sampler
from rightslice.exporter.simulate.library import SimulatedLibrary
from rightslice.exporter.simulate.load import Level
from rightslice.exporter.simulate.scenario import Scenario, SimulatedCard
from rightslice.exporter.simulate.timeline import Event

BYTES_PER_MIB = 1024**2
# The start of a wall-clock minute, and no multiple of a day.
START_SECONDS = 1_700_000_040.0
IDENTITY = Identity("0.0.0", "test")
# In real time: how long a thread waits for its next round, and a test for what must happen.
PAUSE_SECONDS, PATIENCE_SECONDS = 0.001, 10.0
MEMORY_V2 = "nvmlDeviceGetMemoryInfo_v2"


def constant(value: float) -> Level:
    return Level(value, value)


def simulated_card(number: int = 1, **changes: Any) -> SimulatedCard:
    """Give a half used A100 with the UUID GPU-000<number>, except for what is said otherwise."""
    usual = SimulatedCard(
        uuid=f"GPU-{number:04d}",
        name="NVIDIA A100-SXM4-40GB",
        memory_total_bytes=40960 * BYTES_PER_MIB,
        memory_reserved_bytes=434 * BYTES_PER_MIB,
        memory_used_bytes=constant(20480 * BYTES_PER_MIB),
        busy_ratio=constant(0.5),
        sm_active_ratio=constant(0.25),
        process_count=1,
    )
    return replace(usual, **changes)


def hopper(**changes: Any) -> SimulatedCard:
    """Give such a card of a newer model, an H100, that tells more of its activity."""
    usual: dict[str, Any] = {
        "name": "NVIDIA H100 80GB HBM3",
        "sm_active_ratio": constant(0.25),
        "sm_occupancy_ratio": constant(0.125),
        "dram_active_ratio": constant(0.5),
    }
    return simulated_card(**(usual | changes))


def simulated_scenario(*cards: SimulatedCard, events: tuple[Event, ...] = ()) -> Scenario:
    return Scenario("test", "Cards of a test.", "580.95.05", cards, events)


@dataclass(frozen=True)
class SimulatedNode:
    """One node under test: its clock, its driver, and the host that collectors see."""

    clock: ManualClock
    library: SimulatedLibrary
    host: Host

    def open(self) -> tuple[NvmlCard, ...]:
        self.host.nvml.open()
        return self.host.gpus

    def answer(self, name: str, function: Callable[..., int]) -> None:
        """Let an NVML function answer differently from now on."""
        setattr(self.library, name, function)
        # The binding looks each function up once.
        pynvml._nvmlGetFunctionPointer_cache.clear()

    def fail(self, name: str, code: int) -> None:
        """Let an NVML function fail with `code` from now on."""
        self.answer(name, lambda *_: code)

    def lack(self, *names: str) -> None:
        """Let the library be one of an old driver, without these functions."""
        functions = {
            name: getattr(self.library, name)
            for name in dir(self.library)
            if name.startswith("nvml") and name not in names
        }
        pynvml.nvmlLib = SimpleNamespace(**functions)
        pynvml._nvmlGetFunctionPointer_cache.clear()

    def list_cards(self, *positions: int) -> None:
        """Let the driver list these of the scenario's cards, in this order, from now on."""

        def count(target: Any) -> int:
            target._obj.value = len(positions)
            return int(pynvml.NVML_SUCCESS)

        def handle(index: Any, target: Any) -> int:
            position = ctypes.c_uint(positions[index.value])
            return SimulatedLibrary.nvmlDeviceGetHandleByIndex_v2(self.library, position, target)

        self.answer("nvmlDeviceGetCount_v2", count)
        self.answer("nvmlDeviceGetHandleByIndex_v2", handle)

    def record_calls(self) -> list[str]:
        """Give a list of the NVML functions that are called, which grows from now on."""
        called: list[str] = []

        def recording(name: str, function: Callable[..., int]) -> Callable[..., int]:
            def answer(*arguments: Any) -> int:
                called.append(name)
                return function(*arguments)

            return answer

        for name in dir(self.library):
            if name.startswith("nvml"):
                self.answer(name, recording(name, getattr(self.library, name)))
        return called

    def sampler(
        self,
        collectors: tuple[str, ...] = ENABLED,
        interval_seconds: float = 1.0,
        *,
        min_cards: int = 1,
        clock: Clock | None = None,
    ) -> Sampler:
        return Sampler(
            self.host,
            {name: load(name) for name in collectors},
            clock or self.clock.clock(),
            IDENTITY,
            interval_seconds,
            min_cards,
        )

    def sample_rounds(self, sampler: Sampler, count: int, step_seconds: float = 1.0) -> None:
        """Make rounds of sampling, each after a step of the clock."""
        for _ in range(count):
            self.clock.advance(step_seconds)
            sampler.sample()


Simulate = Callable[..., SimulatedNode]
Shipped = Callable[[str], SimulatedNode]


@contextmanager
def running(sampler: Sampler) -> Iterator[threading.Event]:
    """Run a sampler's threads for the length of the block, or until the event is set."""
    stop = threading.Event()
    thread = threading.Thread(target=sampler.run, args=(stop,))
    thread.start()
    try:
        yield stop
    finally:
        stop.set()
        thread.join(PATIENCE_SECONDS)


def wait_until(holds: Callable[[], object]) -> None:
    """Wait until something holds; fails when it does not come to hold."""
    deadline_seconds = time.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert time.monotonic() < deadline_seconds, "what was waited for did not happen"
        time.sleep(PAUSE_SECONDS)


def sample_ring(*rows: tuple[int, int]) -> Callable[..., int]:
    """Make an nvmlDeviceGetSamples that hands back these rows whatever was asked.

    A row is a time in microseconds and a percentage.
    """

    def answer(_: Any, kind: Any, since: Any, value_type: Any, count: Any, samples: Any) -> int:
        count._obj.value = len(rows)
        for slot, (stamp_us, percent) in enumerate(rows if samples is not None else ()):
            samples[slot].timeStamp = stamp_us
            samples[slot].sampleValue.uiVal = percent
        return int(pynvml.NVML_SUCCESS)

    return answer


def calls_of(node: SimulatedNode, name: str) -> list[tuple[Any, ...]]:
    """Note the arguments of each call of an NVML function from now on; it answers as before."""
    calls: list[tuple[Any, ...]] = []
    usual = getattr(node.library, name)

    def answer(*arguments: Any) -> int:
        calls.append(arguments)
        code: int = usual(*arguments)
        return code

    node.answer(name, answer)
    return calls


def number(value: int) -> Callable[..., int]:
    """Make an NVML function that writes this number through its last argument."""

    def answer(*arguments: Any) -> int:
        arguments[-1]._obj.value = value
        return int(pynvml.NVML_SUCCESS)

    return answer


def text(value: bytes) -> Callable[..., int]:
    """Make an NVML function that writes this text into the buffer before its last argument."""

    def answer(*arguments: Any) -> int:
        arguments[-2].value = value
        return int(pynvml.NVML_SUCCESS)

    return answer


def memory_info(
    total_bytes: int, used_bytes: int = 0, reserved_bytes: int = 0
) -> Callable[..., int]:
    """Make an nvmlDeviceGetMemoryInfo, of either version, that tells these bytes."""

    def answer(_: Any, memory: Any) -> int:
        reading = memory._obj
        reading.total, reading.used, reading.reserved = total_bytes, used_bytes, reserved_bytes
        return int(pynvml.NVML_SUCCESS)

    return answer


def fail_first_instance(node: SimulatedNode, card: NvmlCard, code: int) -> None:
    """Let the memory call of a cut card's first instance, and of no other, fail."""
    usual = getattr(node.library, MEMORY_V2)
    first = address_of(card.reader(MigReader).layout().instances[0].devices[0].handle)

    def answer(handle: Any, memory: Any) -> int:
        return code if address_of(handle) == first else int(usual(handle, memory))

    node.answer(MEMORY_V2, answer)


@dataclass(frozen=True)
class FieldAnswer:
    """What one field among others is answered with."""

    value: float = 0
    code: int = pynvml.NVML_SUCCESS
    value_type: int = pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG
    member: str = "ullVal"


def field_values(fields: dict[tuple[int, int], FieldAnswer]) -> Callable[..., int]:
    """Make an nvmlDeviceGetFieldValues that knows these fields, by id and scope, and no others."""
    unknown = FieldAnswer(code=pynvml.NVML_ERROR_NOT_SUPPORTED)

    def answer(_: Any, count: Any, values: Any) -> int:
        for value in values._obj[: count.value]:
            field = fields.get((value.fieldId, value.scopeId), unknown)
            value.nvmlReturn, value.valueType = field.code, field.value_type
            setattr(value.value, field.member, field.value)
        return int(pynvml.NVML_SUCCESS)

    return answer


def told(samples: Iterable[Sample], spec: MetricSpec) -> dict[tuple[str, ...], float]:
    """Give what samples tell of one metric: values by labels."""
    return {sample.labels: sample.value for sample in samples if sample.spec is spec}


def single(samples: Iterable[Sample], spec: MetricSpec) -> float:
    """Give the one value that samples tell of a metric."""
    (value,) = told(samples, spec).values()
    return value

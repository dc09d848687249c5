"""NVML, through pynvml: raw readings in its own units, its errors mapped to ours."""

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pynvml


class Reason(StrEnum):
    """Why a call failed, as far as it tells somebody what to do."""

    LOST = "lost"
    PERMISSION = "permission"
    DRIVER = "driver"
    LATER = "not_ready"
    UNKNOWN = "unknown"


# Not there on this card, in this mode, with this driver: not an error, and not asked again.
ABSENT_CODES = frozenset(
    (
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_DEPRECATED,
    )
)
# Nothing new to tell. The binding raises "Success" when a size query finds no samples.
EMPTY_CODES = frozenset(
    (pynvml.NVML_SUCCESS, pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NO_DATA)
)
REASONS = {
    pynvml.NVML_ERROR_GPU_IS_LOST: Reason.LOST,
    pynvml.NVML_ERROR_RESET_REQUIRED: Reason.LOST,
    pynvml.NVML_ERROR_GPU_NOT_FOUND: Reason.LOST,
    pynvml.NVML_ERROR_NO_PERMISSION: Reason.PERMISSION,
    pynvml.NVML_ERROR_OPERATING_SYSTEM: Reason.PERMISSION,
    pynvml.NVML_ERROR_UNINITIALIZED: Reason.DRIVER,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: Reason.DRIVER,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: Reason.DRIVER,
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: Reason.DRIVER,
    pynvml.NVML_ERROR_TIMEOUT: Reason.LATER,
    pynvml.NVML_ERROR_IN_USE: Reason.LATER,
    pynvml.NVML_ERROR_NOT_READY: Reason.LATER,
    pynvml.NVML_ERROR_INVALID_STATE: Reason.LATER,
}
# A card whose calls fail so is down, not merely unread.
DOWN_REASONS = frozenset((Reason.LOST, Reason.PERMISSION, Reason.DRIVER))

MIG_MODES = {0: "disabled", 1: "enabled"}
VIRTUALIZATION_MODES = {0: "none", 1: "passthrough", 2: "vgpu", 3: "host_vgpu", 4: "host_vsga"}
PLACEHOLDER_UUID = re.compile(r"(GPU-)?[0-]*")
# A sample buffer may grow between asking its size and reading it.
GROWN_BUFFER_RETRIES = 3


class NvmlError(Exception):
    """An NVML call failed; `reason` classifies the code."""

    def __init__(self, call: str, code: int, text: str) -> None:
        super().__init__(f"{call}: {text} (NVML code {code})")
        self.reason = REASONS.get(code, Reason.UNKNOWN)


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """Bytes. `reserved_bytes` is None where the driver counts its reserve as used."""

    total_bytes: int
    used_bytes: int
    reserved_bytes: int | None


@dataclass(frozen=True, slots=True)
class CardIdentity:
    """What a card is; read once, when it is found."""

    uuid: str
    index: int
    name: str
    pci_bus_id: str
    mig: str
    virtualization: str


def _translate(call: str, error: pynvml.NVMLError) -> NvmlError:
    # Never str(error): its text lookup may itself call a library that is gone.
    text = pynvml.NVMLError._errcode_to_string.get(error.value, "unknown error")
    return NvmlError(call, error.value, text)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


@dataclass(slots=True)
class NvmlCard:
    """One card's readings. What it lacks is asked for once and then left alone."""

    identity: CardIdentity
    handle: Any
    driver_version: str
    # "dedicated", "unified" (the card has no memory of its own), or empty while not known.
    memory_kind: str = ""
    newest_sample_us: int | None = None
    _absent: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        return self.identity.uuid

    def memory(self) -> MemoryReading | None:
        """Read the card's memory; None on cards without memory of their own."""
        reading = self._ask(
            "nvmlDeviceGetMemoryInfo_v2",
            lambda: pynvml.nvmlDeviceGetMemoryInfo(self.handle, version=pynvml.nvmlMemory_v2),
        )
        if reading is not None:
            return MemoryReading(reading.total, reading.used, reading.reserved)
        reading = self._ask(
            "nvmlDeviceGetMemoryInfo", lambda: pynvml.nvmlDeviceGetMemoryInfo(self.handle)
        )
        return MemoryReading(reading.total, reading.used, None) if reading is not None else None

    def new_utilisation_samples(self) -> list[tuple[int, int]] | None:
        """Give the driver's utilisation samples since the last call: (microseconds, percent).

        The first call only finds the buffer's end, and gives that one sample: what lies before it
        was not watched. None where the card has no sample buffer; empty when nothing is new.
        """
        samples = self._ask("nvmlDeviceGetSamples", self._read_samples, empty=[])
        if samples is None:
            return None
        since_us = self.newest_sample_us
        stamped = sorted((sample.timeStamp, sample.sampleValue.uiVal) for sample in samples)
        # The driver may hand back the whole ring, stale slots included.
        fresh = [row for row in stamped if since_us is None or row[0] > since_us]
        if fresh:
            self.newest_sample_us = fresh[-1][0]
        return fresh if since_us is not None else fresh[-1:]

    def _read_samples(self) -> list[Any]:
        since_us = self.newest_sample_us or 0
        for attempt in range(GROWN_BUFFER_RETRIES):
            try:
                _, samples = pynvml.nvmlDeviceGetSamples(
                    self.handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, since_us
                )
            except pynvml.NVMLError_InsufficientSize:
                if attempt == GROWN_BUFFER_RETRIES - 1:
                    raise
            else:
                return list(samples)
        return []

    def utilisation_percent(self) -> int | None:
        """Read the share of the last sample period in which a kernel ran; None with MIG."""
        rates = self._ask(
            "nvmlDeviceGetUtilizationRates",
            lambda: pynvml.nvmlDeviceGetUtilizationRates(self.handle),
        )
        return None if rates is None else int(rates.gpu)

    def process_count(self) -> int | None:
        """Count the compute and graphics contexts; None where the driver does not list them."""
        counts = [
            self._ask(name, lambda read=read: len(read(self.handle)), empty=0)  # type: ignore[misc]
            for name, read in (
                ("compute_processes", pynvml.nvmlDeviceGetComputeRunningProcesses_v3),
                ("graphics_processes", pynvml.nvmlDeviceGetGraphicsRunningProcesses_v3),
            )
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def _ask(self, call: str, read: Callable[[], Any], empty: Any = None) -> Any:
        """Make one call: its value, `empty` for "nothing to tell", None where it is absent.

        Raises NvmlError when reading failed.
        """
        if call in self._absent:
            return None
        try:
            return read()
        except pynvml.NVMLError as error:
            if error.value in ABSENT_CODES:
                self._absent.add(call)
                return None
            if error.value in EMPTY_CODES:
                return empty
            raise _translate(call, error) from error


class NvmlSession:
    """The one owner of the library: opened once, closed once.

    `cards` keeps a card's object, and with it what the card is known to lack, over refreshes.
    `listed_count` counts those as well that cannot be opened or told apart.
    """

    def __init__(self) -> None:
        self.cards: tuple[NvmlCard, ...] = ()
        self.duplicate_uuids: tuple[str, ...] = ()
        self.listed_count = 0
        self.driver_version = ""
        self._open = False

    def open(self) -> None:
        """Load the library and list the cards. Raises NvmlError; may be called again after that."""
        if self._open:
            return
        try:
            pynvml.nvmlInit()
            self._open = True
            self.driver_version = _text(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as error:
            self.close()
            raise _translate("nvmlInit", error) from error
        self.refresh()

    def close(self) -> None:
        """Release the library, so that nothing keeps the driver from being changed."""
        self.cards = ()
        if self._open:
            self._open = False
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError as error:
                raise _translate("nvmlShutdown", error) from error

    def refresh(self) -> None:
        """List the cards anew: index order changes, cards come and go, the UUID stays."""
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise _translate("nvmlDeviceGetCount", error) from error
        known = {card.id: card for card in self.cards}
        found: dict[str, NvmlCard] = {}
        duplicates: list[str] = []
        for index in range(count):
            card = self._card_at(index)
            if card is None:
                continue
            if card.id in found or PLACEHOLDER_UUID.fullmatch(card.id):
                duplicates.append(card.id)
            elif card.id in known and known[card.id].identity == card.identity:
                found[card.id] = known[card.id]
                found[card.id].handle = card.handle
                found[card.id].memory_kind = card.memory_kind or found[card.id].memory_kind
            else:
                found[card.id] = card
        self.cards = tuple(found.values())
        self.duplicate_uuids = tuple(duplicates)
        self.listed_count = count

    def _card_at(self, index: int) -> NvmlCard | None:
        """Open one card; None for one that cannot be opened, so that it never hides the others."""
        try:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            card = NvmlCard(
                CardIdentity(
                    uuid=_text(pynvml.nvmlDeviceGetUUID(handle)),
                    index=index,
                    name=_text(pynvml.nvmlDeviceGetName(handle)),
                    pci_bus_id=_text(pynvml.nvmlDeviceGetPciInfo(handle).busId),
                    mig=_optional(lambda: MIG_MODES[pynvml.nvmlDeviceGetMigMode(handle)[0]]),
                    virtualization=_optional(
                        lambda: VIRTUALIZATION_MODES[pynvml.nvmlDeviceGetVirtualizationMode(handle)]
                    ),
                ),
                handle,
                self.driver_version,
            )
        except pynvml.NVMLError:
            return None
        with suppress(NvmlError):  # the memory collector will meet the same failure, and tell it
            card.memory_kind = "unified" if card.memory() is None else "dedicated"
        return card


def _optional(read: Callable[[], str]) -> str:
    """Read a word about the card; empty where the card, or this module, has no word for it."""
    try:
        return read()
    except (pynvml.NVMLError, KeyError):
        return ""

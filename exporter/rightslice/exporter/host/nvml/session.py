"""The one owner of the NVML library: opened once, closed once, its list of cards kept true."""

import re
from collections.abc import Callable
from contextlib import suppress
from ctypes import byref, c_uint
from dataclasses import dataclass, replace
from typing import Any

import pynvml

from rightslice.exporter.host.attribution import Attribution
from rightslice.exporter.host.nvml.calls import SUCCESS, call, call_for_text
from rightslice.exporter.host.nvml.card import (
    MIG_MODES,
    VIRTUALIZATION_MODES,
    CardIdentity,
    NvmlCard,
)
from rightslice.exporter.host.nvml.errors import ABSENT_CODES, NvmlError, Reason, text_of
from rightslice.exporter.host.nvml.events import EventSet
from rightslice.exporter.timeslice import SLICE_SECONDS

PLACEHOLDER_UUID = re.compile(r"(GPU-)?[0-]*")
# "Don't fail because there is no card": on mixed pools a node without one is not broken.
NO_CARDS_IS_FINE = pynvml.NVML_INIT_FLAG_NO_GPUS
# A card that comes up reads as fully busy while the driver scrubs its memory.
SETTLING_SECONDS = 30.0


# What may be over at the next try: a card that was known stays, and its own readings tell of it.
PASSING_REASONS = frozenset((Reason.LATER, Reason.UNKNOWN))


@dataclass(frozen=True, slots=True)
class Unopened:
    """A card that is listed and cannot be opened.

    `place` is the UUID of the card that was last seen at its index, else the index.
    """

    place: str
    error: NvmlError


class NvmlSession:
    """Opens, lists and closes; used by one thread at a time.

    `cards` keeps a card's object, and with it what the card is known to lack, over refreshes.
    `listed_count` counts those as well that cannot be opened or told apart. `bus_ids` remembers
    where each card was found, those that are gone included: a log line about a lost card names only
    its place.
    """

    def __init__(self, attribution: Attribution, timeslice_seconds: float = SLICE_SECONDS) -> None:
        self._attribution = attribution
        self._timeslice_seconds = timeslice_seconds
        self.cards: tuple[NvmlCard, ...] = ()
        self.unopened: tuple[Unopened, ...] = ()
        self.duplicate_uuids: tuple[str, ...] = ()
        self.listed_count = 0
        self.driver_version = ""
        self.events = EventSet()
        self.bus_ids: dict[str, str] = {}
        self.is_open = False
        self._uuid_at: dict[int, str] = {}
        # Set from another thread when a card reported a change: its mode may be another now.
        self.is_list_old = False
        # Cards found from now on have just come up, not been up before us.
        self.was_open_or_failed = False

    def open(self) -> None:
        """Load the library and list the cards. Raises NvmlError; may be called again after that."""
        if self.is_open:
            return
        try:
            pynvml.nvmlInitWithFlags(NO_CARDS_IS_FINE)
            self.is_open = True
            self.driver_version = text_of(pynvml.nvmlSystemGetDriverVersion())
            self.refresh()
        except (pynvml.NVMLError, NvmlError) as error:
            self.was_open_or_failed = True
            with suppress(NvmlError):
                self.close()
            raise _translated("nvmlInit", error) from error

    def close(self) -> None:
        """Release the library, so that nothing keeps the driver from being changed."""
        for card in self.cards if self.is_open else ():
            card.close()
        self.cards = ()
        self.unopened = ()
        self.is_list_old = False
        if self.is_open:
            self.is_open = False
            self.events.free()
            try:
                pynvml.nvmlShutdown()
            except pynvml.NVMLError as error:
                raise _translated("nvmlShutdown", error) from error

    def refresh(self) -> None:
        """List the cards anew: index order changes, cards come and go, the UUID stays.

        Raises NvmlError when the list cannot be had, or no card on it can be told.
        """
        self.is_list_old = False
        try:
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            raise _translated("nvmlDeviceGetCount", error) from error
        known = {card.id: card for card in self.cards}
        found: dict[str, NvmlCard] = {}
        duplicates: list[str] = []
        unopened: list[Unopened] = []
        for index in range(count):
            try:
                handle, identity = _listed_at(index, known)
            except pynvml.NVMLError as error:
                failure = NvmlError("opening a card", error.value)
                place = self._uuid_at.get(index, f"index {index}")
                unopened.append(Unopened(place, failure))
                continue
            self._uuid_at[index] = identity.uuid
            if identity.uuid in found or PLACEHOLDER_UUID.fullmatch(identity.uuid):
                duplicates.append(identity.uuid)
            else:
                found[identity.uuid] = self._card(known.get(identity.uuid), handle, identity)
        # If no card has left, those that failed for the moment are those that are missing.
        lost = {row.place for row in unopened if row.error.reason not in PASSING_REASONS}
        missing = {uuid: known[uuid] for uuid in known if uuid not in found and uuid not in lost}
        if len(missing) == sum(row.error.reason in PASSING_REASONS for row in unopened):
            found |= missing
        if unopened and not found and self.cards:
            raise unopened[0].error
        self.cards = tuple(found.values())
        self.unopened = tuple(unopened)
        self.duplicate_uuids = tuple(duplicates)
        self.listed_count = count
        self.was_open_or_failed = True
        # A new dictionary: the reader of the kernel log goes through the old one meanwhile.
        self.bus_ids = self.bus_ids | {card.identity.pci_bus_id: card.id for card in self.cards}
        watched = [card for card in self.cards if not card.identity.is_guest]
        self.events.watch({card.id: card.handle for card in watched})

    def _card(self, known: NvmlCard | None, handle: Any, identity: CardIdentity) -> NvmlCard:
        """Give the object of a card that is still what it was, with its new handle, or a new one.

        It is asked nothing more than who it is: it may hang, and the list must not.
        """
        if known is not None and replace(known.identity, index=identity.index) == identity:
            known.identity, known.handle = identity, handle
            return known
        card = NvmlCard(
            identity, handle, self.driver_version, self._attribution, self._timeslice_seconds
        )
        if self.was_open_or_failed:
            card.settling_seconds = SETTLING_SECONDS
        return card


def _listed_at(index: int, known: dict[str, NvmlCard]) -> tuple[Any, CardIdentity]:
    """Tell what is at a place of the driver's list. Raises NVMLError."""
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    uuid = _string("nvmlDeviceGetUUID", handle, pynvml.NVML_DEVICE_UUID_V2_BUFFER_SIZE)
    before = known[uuid].identity if uuid in known else None
    return handle, CardIdentity(
        uuid=uuid,
        index=index,
        name=_string("nvmlDeviceGetName", handle, pynvml.NVML_DEVICE_NAME_V2_BUFFER_SIZE),
        pci_bus_id=text_of(pynvml.nvmlDeviceGetPciInfo(handle).busId),
        mig=_word(
            lambda: pynvml.nvmlDeviceGetMigMode(handle)[0], MIG_MODES, before.mig if before else ""
        ),
        virtualization=_word(
            lambda: pynvml.nvmlDeviceGetVirtualizationMode(handle),
            VIRTUALIZATION_MODES,
            before.virtualization if before else "",
        ),
        minor=_minor(handle, before.minor if before else None),
    )


def _minor(handle: Any, before: int | None) -> int | None:
    """Read the number of the card's device file, which stays while the driver is loaded."""
    if before is not None:
        return before
    number = c_uint()
    code = call("nvmlDeviceGetMinorNumber", handle, byref(number))
    return number.value if code == SUCCESS else None


def _string(name: str, handle: Any, size: int) -> str:
    code, text = call_for_text(name, handle, size)
    if code != SUCCESS:
        raise pynvml.NVMLError(code)
    return text


def _translated(name: str, error: "pynvml.NVMLError | NvmlError") -> NvmlError:
    return error if isinstance(error, NvmlError) else NvmlError(name, error.value)


def _word(read: Callable[[], int], words: dict[int, str], before: str) -> str:
    """Read a word about the card; empty where the card, or this module, has no word for it.

    A question that fails for the moment leaves the word that was known.
    """
    try:
        return words.get(read(), "")
    except pynvml.NVMLError as error:
        return "" if error.value in ABSENT_CODES else before

"""For which priorities PFC is on, by what the kernel and the driver tell."""

from collections.abc import Collection, Mapping

from rightslice.exporter.host.net.dcb import PRIORITY_COUNT

PRIORITIES = tuple(str(priority) for priority in range(PRIORITY_COUNT))
PAUSE_FRAMES = "pfc_pause_frames_received_total"
# These have strings of pauses only for priorities for which it is on.
STRINGS_WHILE_ON = frozenset(("mlx5_core",))
# For these the kernel says "no priority" also where nobody has set any.
UNSET_READS_NONE = frozenset(("bnxt_en",))


def enabled_by_kernel(driver: str, told: Mapping[str, bool] | None) -> Mapping[str, bool] | None:
    """Say of each priority whether it is on by the kernel's DCB; None where that proves nothing."""
    if told is None or (driver in UNSET_READS_NONE and not any(told.values())):
        return None
    return told


def enabled_by_strings(driver: str, with_pauses: Collection[str]) -> dict[str, bool]:
    """Say it by the priorities of which the driver counts pauses; nothing where none proves it.

    Without any such string it may be off, or a firmware that has none.
    """
    if driver not in STRINGS_WHILE_ON or not with_pauses:
        return {}
    return {priority: priority in with_pauses for priority in PRIORITIES}

"""What the kernel and the driver prove of flow control, and what they do not."""

from rightslice.exporter.host.net.pfc_enabled import (
    PRIORITIES,
    enabled_by_kernel,
    enabled_by_strings,
)

NOTHING_ON = dict.fromkeys(PRIORITIES, False)


def test_no_priority_at_all_proves_nothing_of_bnxt_alone() -> None:
    assert enabled_by_kernel("bnxt_en", NOTHING_ON) is None
    assert enabled_by_kernel("ice", NOTHING_ON) == NOTHING_ON
    assert enabled_by_kernel("bnxt_en", NOTHING_ON | {"3": True}) == NOTHING_ON | {"3": True}
    assert enabled_by_kernel("ice", None) is None


def test_strings_of_pauses_prove_it_of_mlx5_alone() -> None:
    assert enabled_by_strings("mlx5_core", {"3"}) == NOTHING_ON | {"3": True}
    assert enabled_by_strings("mlx5_core", set()) == {}
    assert enabled_by_strings("ice", {"3"}) == {}

"""The window to a card's memory."""

import pytest
from support.sysfs_tree import CARD, SysfsTree

from rightslice.exporter.check.bar1 import check
from rightslice.exporter.check.finding import OK, UNKNOWN, WARNING

MIB, GIB = 1024**2, 1024**3
REGISTERS_32_BIT, WINDOW, UNSET = 0x40200, 0x14220C, 0x2014220C
HIGH, LOW = 0x2000_0000_0000, 0xC000_0000
NONE = (0, 0, 0)
A100 = "Model: \t\t NVIDIA A100-SXM4-40GB\nIRQ:   \t\t 123\n"


def resource(*registers: tuple[int, int, int]) -> dict[str, str]:
    """Spell registers, of start, size and flags, and the rest that the kernel lists."""
    rows = []
    for start, size, flags in (*registers, *[NONE] * 13)[:13]:
        rows.append(f"0x{start:016x} 0x{start + max(size - 1, 0):016x} 0x{flags:016x}")
    return {"resource": "\n".join(rows)}


def card_files(size: int, start: int = HIGH, flags: int = WINDOW) -> dict[str, str]:
    """Give a card's registers: its own, its memory's window, and a small one."""
    return resource(
        (0xB000_0000, 16 * MIB, REGISTERS_32_BIT),
        (start, size, flags),
        NONE,
        (HIGH + 512 * GIB, 32 * MIB, WINDOW),
    )


def test_a_window_to_all_memory_is_ok(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_card(files=card_files(64 * GIB))
    tree.write_proc(f"driver/nvidia/gpus/{CARD}/information", A100)

    (finding,) = check(tree.node())

    assert (finding.level, finding.subject) == (OK, CARD)
    assert finding.text == "BAR1 has 64 GiB for 40 GiB of memory"


@pytest.mark.parametrize("information", [A100, None])
def test_a_small_window_is_a_warning_beside_an_rdma_device(
    tree: SysfsTree, information: str | None
) -> None:
    tree.add_nic()
    tree.add_card(files=card_files(256 * MIB, LOW))
    if information:
        tree.write_proc(f"driver/nvidia/gpus/{CARD}/information", information)

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert "256 MiB" in finding.text
    assert "below 4 GiB" in finding.text
    assert "Above 4G Decoding" in finding.remedy


def test_a_window_below_the_memory_of_its_model_is_a_warning(tree: SysfsTree) -> None:
    tree.add_nic()
    tree.add_card(files=card_files(16 * GIB))
    tree.write_proc(f"driver/nvidia/gpus/{CARD}/information", A100)

    assert [finding.level for finding in check(tree.node())] == [WARNING]


def test_without_an_rdma_device_a_small_window_is_told_only(tree: SysfsTree) -> None:
    tree.add_card(files=card_files(256 * MIB))

    (finding,) = check(tree.node())

    assert finding.level == OK
    assert "GPUDirect RDMA alone would mind" in finding.text


def test_what_the_card_could_do_is_told(tree: SysfsTree) -> None:
    tree.add_nic()
    sizes = {"resource1_resize": f"{0b1111111 << 8:016x}"}  # 256 MiB to 16 GiB
    tree.add_card(files=card_files(256 * MIB) | sizes)

    (finding,) = check(tree.node())

    assert "this card can do 16 GiB" in finding.remedy


@pytest.mark.parametrize("sizes", ["", "nonsense", "0", "-1", f"{1 << 8:x}"])
def test_no_more_is_told_where_there_is_no_more(tree: SysfsTree, sizes: str) -> None:
    tree.add_nic()
    tree.add_card(files=card_files(256 * MIB) | {"resource1_resize": sizes})

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert "this card can do" not in finding.remedy


def test_the_window_may_be_another_register(tree: SysfsTree) -> None:
    tree.add_nic()
    registers = ((HIGH, 64 * MIB, WINDOW), NONE, (HIGH + 256 * GIB, 128 * GIB, WINDOW))
    tree.add_card(files=resource(*registers))

    (finding,) = check(tree.node())

    assert (finding.level, finding.text) == (OK, "BAR1 has 128 GiB")


def test_ranges_of_virtual_functions_are_not_the_cards(tree: SysfsTree) -> None:
    tree.add_nic()
    rows = [NONE, (HIGH, 256 * MIB, WINDOW), *[NONE] * 6, (HIGH + GIB, 64 * GIB, WINDOW)]
    tree.add_card(files=resource(*rows))

    (finding,) = check(tree.node())

    assert (finding.level, "256 MiB" in finding.text) == (WARNING, True)


@pytest.mark.parametrize(("start", "flags"), [(0, UNSET), (HIGH, UNSET), (0, WINDOW)])
def test_a_window_without_a_place_is_a_warning(tree: SysfsTree, start: int, flags: int) -> None:
    tree.add_card(files=card_files(64 * GIB, start, flags))

    (finding,) = check(tree.node())

    assert finding.level == WARNING
    assert finding.text == "BAR1 of 64 GiB got no place: the BIOS left no room for it"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({}, id="no file"),
        pytest.param({"resource": ""}, id="empty"),
        pytest.param({"resource": "0x00 what\n" * 6}, id="nonsense"),
        pytest.param(resource((0xB000_0000, 16 * MIB, REGISTERS_32_BIT)), id="no window"),
    ],
)
def test_a_window_that_is_not_told_is_unknown(tree: SysfsTree, files: dict[str, str]) -> None:
    tree.add_nic()
    tree.add_card(files=files)

    assert [finding.level for finding in check(tree.node())] == [UNKNOWN]

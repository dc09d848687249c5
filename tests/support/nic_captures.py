"""Captures of RDMA devices and of ethtool's statistics, expanded into what the exporter reads."""

import re
from collections.abc import Iterator
from pathlib import Path

from support.ethtool_kernel import Set
from support.sysfs_tree import SysfsTree, link

CASES = "cases"
# The kernel's module, by how the names of its RDMA devices begin.
MODULES = {"mlx5": "mlx5_core", "mlx4": "mlx4_core", "i40iw": "i40e", "hfi1": "hfi1"}
CLASS = "/sys/class/infiniband/"
# A path of sysfs, and the file's text after a tabulator or, of `grep`, a colon.
FILE_LINE = re.compile(r"(/sys/\S+?/(?:class/)?infiniband/[^\t:]+)[\t:](.*)")
LISTED = re.compile(r"(\w+) +([0-9]+)")
STATISTIC = re.compile(r"\s*(.*): ([0-9]+)")
HEADING = re.compile(r"# *(.*)")


def capture(shared: Path, name: str) -> str:
    return (shared / CASES / name).read_text(encoding="utf-8")


def expand_files(text: str, tree: SysfsTree) -> None:
    """Write the files that a capture lists by their paths; lines without one go on with a file."""
    path: Path | None = None
    for line in text.splitlines():
        match = FILE_LINE.fullmatch(line)
        if match is not None:
            path = _real_place(match[1], tree)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{match[2]}\n", encoding="utf-8")
        elif path is not None and not line.strip():
            with path.open("a", encoding="utf-8") as file:
                file.write(f"{line}\n")
        else:
            path = None


def expand_listing(text: str, tree: SysfsTree, folder: str) -> None:
    """Write the files of one folder, which a capture lists as names and numbers."""
    for name, number in LISTED.findall(text):
        path = _real_place(f"{CLASS}{folder}/{name}", tree)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n", encoding="utf-8")


def statistics(text: str) -> Set:
    """Give the names and values that `ethtool -S` printed, in order; a name may hold a colon."""
    rows = (STATISTIC.fullmatch(line) for line in text.splitlines())
    return [(match[1].encode(), int(match[2])) for match in rows if match is not None]


def parts(text: str) -> dict[str, Set]:
    """Give the statistics below each heading of a capture of several drivers."""
    return {heading: statistics(block) for heading, block in _blocks(text) if statistics(block)}


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    heading, lines = "", list[str]()
    for line in text.splitlines():
        match = HEADING.fullmatch(line)
        if match is None:
            lines.append(line)
            continue
        yield heading, "\n".join(lines)
        heading, lines = match[1], []
    yield heading, "\n".join(lines)


def _real_place(path: str, tree: SysfsTree) -> Path:
    """Give where a file really is, below a PCI function with a driver that is made for it."""
    before, _, below = path.removeprefix("/sys/").partition("infiniband/")
    device, _, rest = below.partition("/")
    entry = tree.sysfs / "class/infiniband" / device
    if not entry.is_symlink():
        stem = next(stem for stem in MODULES if device.startswith(stem))
        way = before.removeprefix("devices/").rstrip("/").split("/")
        number = len(list((tree.sysfs / "bus/pci/devices").glob("*")))
        *bridges, bus_id = (
            way if before.startswith("devices/") else ["pci0000:00", f"0000:{number:02x}:00.0"]
        )
        function = tree.add_function(bus_id, way=bridges, driver=MODULES[stem])
        folder = function / "infiniband" / device
        folder.mkdir(parents=True)
        link(folder / "device", function)
        link(entry, folder)
    return entry.resolve() / rest

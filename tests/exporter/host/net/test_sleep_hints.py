"""What may be why a process does not use RDMA."""

from pathlib import Path

import pytest

from rightslice.exporter.host.net.port_now import PortNow
from rightslice.exporter.host.net.sleep_hints import hints_of

PORTS = [PortNow("mlx5_0", 1, is_up=True), PortNow("mlx5_1", 1, is_up=False)]
MIB = 1024**2
NOTHING_ALLOWED, ALL_ALLOWED, LOCK_ALLOWED = "0000000000000000", "000001ffffffffff", "4000"


@pytest.fixture
def process(tmp_path: Path) -> Path:
    """Give the folder of a process that sees a device and may lock all memory."""
    folder = tmp_path / "7"
    (folder / "root/dev/infiniband").mkdir(parents=True)
    (folder / "root/dev/infiniband/uverbs0").touch()
    set_memlock(folder, "unlimited")
    return folder


def set_memlock(folder: Path, soft: str, capabilities: str = NOTHING_ALLOWED) -> None:
    (folder / "limits").write_text(
        "Limit                     Soft Limit           Hard Limit           Units     \n"
        "Max processes             62987                62987                processes \n"
        f"Max locked memory         {soft:<20} unlimited            bytes     \n"
    )
    (folder / "status").write_text(f"Name:\tpython3\nCapEff:\t{capabilities}\nSeccomp:\t0\n")


def told(process: Path, **variables: str) -> list[str]:
    return list(hints_of(process.parent, 7, variables, PORTS))


def test_where_nothing_is_wrong_nothing_is_told(process: Path) -> None:
    assert told(process, NCCL_IB_HCA="mlx5", NCCL_IB_DISABLE="0") == []


@pytest.mark.parametrize("soft", ["65536", str(8 * MIB), str(64 * MIB - 1), "0"])
def test_a_low_limit_of_locked_memory_is_told(process: Path, soft: str) -> None:
    set_memlock(process, soft)

    assert told(process) == ["memlock_low"]


def test_a_limit_that_suffices_is_not_told(process: Path) -> None:
    set_memlock(process, str(64 * MIB))

    assert told(process) == []


@pytest.mark.parametrize("capabilities", [ALL_ALLOWED, LOCK_ALLOWED])
def test_who_may_lock_all_memory_has_no_limit(process: Path, capabilities: str) -> None:
    set_memlock(process, "65536", capabilities)

    assert told(process) == []


def test_a_container_without_devices_is_told(process: Path) -> None:
    (process / "root/dev/infiniband/uverbs0").unlink()

    assert told(process) == ["no_device_in_container"]


@pytest.mark.parametrize(
    ("variables", "hint"),
    [
        ({"NCCL_IB_DISABLE": "1"}, "nccl_ib_disable"),
        ({"FI_PROVIDER": "tcp"}, "fi_provider_tcp"),
        ({"NCCL_IB_HCA": "mlx4_0"}, "nccl_ib_hca"),
        ({"NCCL_IB_HCA": "^mlx5"}, "nccl_ib_hca"),
        ({"NCCL_IB_HCA": "mlx5_1"}, "port_down"),
    ],
)
def test_a_variable_that_keeps_nccl_from_rdma_is_told(
    process: Path, variables: dict[str, str], hint: str
) -> None:
    assert told(process, **variables) == [hint]


def test_a_process_that_has_gone_gives_what_its_variables_give(tmp_path: Path) -> None:
    assert list(hints_of(tmp_path, 7, {"NCCL_IB_DISABLE": "1"}, PORTS)) == ["nccl_ib_disable"]

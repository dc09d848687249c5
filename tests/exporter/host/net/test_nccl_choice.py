"""What variables of NCCL's mean for RDMA."""

import pytest

from rightslice.exporter.host.net.nccl_choice import (
    is_fabric_tcp,
    is_infiniband_off,
    is_meant_for_tcp,
    wanted_ports,
)
from rightslice.exporter.host.net.port_now import PortNow

MLX5_0, MLX5_1, MLX5_10 = PORTS = [
    PortNow("mlx5_0", 1, is_up=True),
    PortNow("mlx5_1", 1, is_up=False),
    PortNow("mlx5_10", 2, is_up=True),
]


@pytest.mark.parametrize(
    ("net", "is_meant"),
    [
        ("Socket", True),
        ("socket", True),
        ("GPUDirectTCPX_v7", True),
        ("FasTrak", True),
        ("IB", False),
        ("AWS Libfabric", False),
        ("", False),
    ],
)
def test_a_network_that_is_chosen_by_name_is_meant(net: str, is_meant: bool) -> None:
    assert is_meant_for_tcp({"NCCL_NET": net}) is is_meant


def test_to_switch_infiniband_off_chooses_no_network() -> None:
    assert is_meant_for_tcp({"NCCL_IB_DISABLE": "1"}) is False


@pytest.mark.parametrize(
    ("text", "is_off"), [("1", True), (" 2 ", True), ("0", False), ("", False), ("true", False)]
)
def test_infiniband_is_switched_off_by_a_number(text: str, is_off: bool) -> None:
    assert is_infiniband_off({"NCCL_IB_DISABLE": text}) is is_off


@pytest.mark.parametrize(
    ("text", "is_tcp"), [("tcp;ofi_rxm", True), ("sockets", True), ("efa", False), ("", False)]
)
def test_libfabric_may_be_told_to_use_tcp(text: str, is_tcp: bool) -> None:
    assert is_fabric_tcp({"FI_PROVIDER": text}) is is_tcp


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("mlx5_0", [MLX5_0], id="one"),
        pytest.param("mlx5_1", [MLX5_1, MLX5_10], id="by beginning"),
        pytest.param("=mlx5_1", [MLX5_1], id="whole names"),
        pytest.param("mlx5_0:1,mlx5_10:2", [MLX5_0, MLX5_10], id="with ports"),
        pytest.param("mlx5_0:2", [], id="another port"),
        pytest.param("^mlx5_1", [MLX5_0], id="all but these"),
        pytest.param("^=mlx5_1", [MLX5_0, MLX5_10], id="all but whole names"),
        pytest.param("mlx4", [], id="none of ours"),
        pytest.param("", None, id="not told"),
        pytest.param(",", None, id="an empty list"),
    ],
)
def test_a_list_of_devices_is_read_as_nccl_reads_it(
    text: str, wanted: list[PortNow] | None
) -> None:
    assert wanted_ports({"NCCL_IB_HCA": text}, PORTS) == wanted

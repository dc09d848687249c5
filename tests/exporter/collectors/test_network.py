"""What the collector of the network as a whole tells, and that it looks for no one's sake twice."""

import pytest
from support.network_node import NETWORK_COLLECTORS, kernel_of, network_node, sampled
from support.pages import values
from support.sysfs_tree import SysfsTree

from rightslice.exporter.host.net.netdevs import Netdev, NetdevFinder

NIC = "0000:3b:00.0"


@pytest.mark.parametrize(
    ("statistics", "is_seen", "reason"),
    [
        pytest.param([(b"rx_prio3_pause_duration", 5)], 1, "time", id="time"),
        pytest.param([(b"rx_prio3_pause", 5)], 1, "frames", id="frames"),
        pytest.param([(b"rx_bytes_phy", 5)], 0, "driver", id="nothing"),
    ],
)
def test_what_is_seen_of_pauses_is_told(
    tree: SysfsTree, statistics: list[tuple[bytes, int]], is_seen: int, reason: str
) -> None:
    tree.add_nic("mlx5_0", NIC, netdev="eth0")

    with network_node(tree, {"eth0": kernel_of(statistics, bus=NIC)}) as node:
        page = values(sampled(node, rounds=3))

    observable = "rightslice_rdma_pfc_observable"
    assert [each for each in page if each.startswith(observable)] == [
        f'{observable}{{device="mlx5_0",port="1",reason="{reason}"}}'
    ]
    assert page[f'{observable}{{device="mlx5_0",port="1",reason="{reason}"}}'] == is_seen


def test_in_a_container_without_the_nodes_network_it_says_so_and_tells_the_rest(
    tree: SysfsTree,
) -> None:
    folder = tree.add_nic("mlx5_0", NIC, netdev="eth0")
    (folder / "ports/1/hw_counters/out_of_buffer").write_text("5\n", encoding="ascii")

    with network_node(tree) as node:  # whose kernel knows no interface
        page = values(sampled(node, rounds=3))

    port = 'device="mlx5_0",port="1"'
    assert page[f'rightslice_rdma_pfc_observable{{{port},reason="network_namespace"}}'] == 0
    assert page[f"rightslice_rdma_out_of_buffer_total{{{port}}}"] == 5
    assert not any(series.startswith("rightslice_pfc_") for series in page)


def test_the_tree_is_searched_every_ten_seconds_only(
    tree: SysfsTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.add_nic("mlx5_0", NIC)
    searches: list[int] = []
    find = NetdevFinder.find

    def counted(finder: NetdevFinder) -> tuple[Netdev, ...]:
        searches.append(1)
        return find(finder)

    monkeypatch.setattr(NetdevFinder, "find", counted)
    with network_node(tree) as node:
        sampler = node.sampler(NETWORK_COLLECTORS)
        node.sample_rounds(sampler, 30)

    assert len(searches) == 3

"""Who holds what, read from answers of the kubelet."""

import itertools
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.kubelet.device_ids import DeviceId
from rightslice.exporter.host.kubelet.grants import Grant, Grants, grants_of
from rightslice.exporter.host.kubelet.podresources_pb2 import (
    CDIDevice,
    ClaimResource,
    ContainerResources,
    DynamicResource,
    ListPodResourcesResponse,
    PodResources,
)
from rightslice.exporter.host.owners.workload import POD, Workload
from rightslice.exporter.host.quantity import parse_quantity
from rightslice.exporter.simulate.kubelet import (
    SimulatedClaim,
    SimulatedContainer,
    SimulatedPod,
    allocatable_answer,
    list_answer,
)

UUID = "0f3e9a52-1b2c-4d5e-8f60-718293a4b5c6"
CARD = f"GPU-{UUID}"
TRAINER = Workload(POD, "default", "trainer", "main")


def holding(resource: str, *ids: str, name: str = "trainer") -> SimulatedPod:
    return SimulatedPod(name, containers=(SimulatedContainer(devices={resource: ids}),))


def claiming(*claims: SimulatedClaim) -> SimulatedPod:
    return SimulatedPod("trainer", containers=(SimulatedContainer(claims=claims),))


def granted(*pods: SimulatedPod) -> Grants:
    return grants_of(list_answer(pods), None)


def devices_of(*pods: SimulatedPod) -> list[DeviceId]:
    return [grant.device for grant in granted(*pods).grants]


def test_a_card_belongs_to_the_container_that_was_granted_it() -> None:
    grants = granted(holding("nvidia.com/gpu", CARD))

    assert grants == Grants((Grant(TRAINER, DeviceId(CARD), "nvidia.com/gpu"),))


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb", "acme.org/a100"],
)
def test_what_an_id_means_decides_and_not_the_name_of_its_resource(resource: str) -> None:
    assert devices_of(holding(resource, CARD)) == [DeviceId(CARD)]


def test_all_containers_resources_and_devices_of_a_pod_are_read() -> None:
    first = SimulatedContainer("a", {"nvidia.com/gpu": ("nvidia0", "nvidia1")})
    second = SimulatedContainer("b", {"nvidia.com/gpu": ("nvidia2",), "acme.org/x": ("nvidia3",)})

    grants = granted(SimulatedPod("p", "n", (second, first))).grants

    assert [(grant.workload.container, grant.resource, grant.device.minor) for grant in grants] == [
        ("a", "nvidia.com/gpu", 0),
        ("a", "nvidia.com/gpu", 1),
        ("b", "acme.org/x", 3),
        ("b", "nvidia.com/gpu", 2),
    ]


def test_the_order_of_the_answer_makes_no_difference() -> None:
    pods = [holding("nvidia.com/gpu", f"nvidia{minor}", name=f"p{minor}") for minor in range(4)]

    answers = {granted(*order) for order in itertools.permutations(pods)}

    assert len(answers) == 1


def test_what_is_told_twice_counts_once() -> None:
    pod = holding("nvidia.com/gpu", CARD, CARD)

    assert devices_of(pod, pod) == [DeviceId(CARD)]


def test_ids_of_gpus_that_no_rule_understands_are_counted_and_hide_no_others() -> None:
    grants = granted(
        holding("nvidia.com/gpu", f"{CARD}-0", "", CARD), holding("acme.org/VGPU", "?", name="b")
    )

    assert grants.unmapped_count == 3
    assert [grant.device for grant in grants.grants] == [DeviceId(CARD)]


@pytest.mark.parametrize("text", ["0000:07:00.1", UUID, f"{UUID}::2"])
def test_devices_of_other_kinds_are_none_of_ours(text: str) -> None:
    assert granted(holding("acme.org/nic", text)) == Grants()


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/hostdev",
        "nvidia.com/mlnxnics",
        "nvidia.com/rail_0_plane_1",
        "nvidia.com/bf2_sf",
        "nvidia.com/cx7_qsfp",
        "nvidia.com/sriov-rdma-vf",
        "nvidia.com/ib0",
        "rdma/gpu_shared",
        "acme.org/gpu-nic",
    ],
)
@pytest.mark.parametrize("text", ["0000:3b:00.2", "ens1f0v3", UUID])
def test_a_resource_of_a_network_is_no_gpu_s(resource: str, text: str) -> None:
    assert granted(holding(resource, text)) == Grants()


def test_a_card_is_one_whatever_its_resource_is_called() -> None:
    assert devices_of(holding("nvidia.com/gpu-with-nic", CARD)) == [DeviceId(CARD)]


@pytest.mark.parametrize(
    "resource", ["nvidia.com/GA102GL_A10", "nvidia.com/gpu-process", "acme.org/gpu-visible.clinics"]
)
def test_a_word_within_another_names_no_network(resource: str) -> None:
    assert granted(holding(resource, "42")).unmapped_count == 1


def test_a_uuid_without_prefix_is_a_card_where_the_resource_is_one_of_gpus() -> None:
    assert devices_of(holding("nvidia.com/gpu", UUID)) == [DeviceId(CARD)]


def test_pods_without_devices_leave_nothing() -> None:
    assert granted(SimulatedPod("web"), SimulatedPod("db", containers=())) == Grants()


@pytest.mark.parametrize(
    ("texts", "are_shared"),
    [
        pytest.param(["nvidia0"], [False], id="whole card"),
        pytest.param(["nvidia0", "nvidia1/vgpu0"], [False, True], id="shares of another card"),
        pytest.param(["nvidia0", "nvidia0/vgpu0"], [True, True], id="card and its first share"),
        pytest.param(["nvidia0", "nvidia0/gi1"], [True, False], id="card and a slice of it"),
        pytest.param(
            ["nvidia0", "nvidia0/gi1", "nvidia0/gi1/vgpu0", "nvidia0/gi2"],
            [True, True, True, False],
            id="slice and its first share",
        ),
        pytest.param([CARD, f"{CARD}::1"], [True, True], id="UUID and a share of it"),
    ],
)
def test_a_device_with_shares_beside_it_is_not_held_alone(
    texts: list[str], are_shared: list[bool]
) -> None:
    grants = granted(holding("nvidia.com/gpu", *texts)).grants

    assert [grant.is_shared for grant in grants] == are_shared


def test_shares_that_nobody_holds_yet_make_the_plain_card_shared_too() -> None:
    allocatable = allocatable_answer({"nvidia.com/gpu": ("nvidia0/vgpu0", "nvidia0/vgpu1")})

    grants = grants_of(list_answer([holding("nvidia.com/gpu", "nvidia0")]), allocatable)

    assert [grant.is_shared for grant in grants.grants] == [True]


def test_a_claimed_card_is_a_grant() -> None:
    grants = granted(claiming(SimulatedClaim("gpu-1")))

    assert grants == Grants((Grant(TRAINER, DeviceId(minor=1), "gpu.nvidia.com"),))


def test_a_claim_that_names_no_card_is_kept_as_a_claim_and_counted() -> None:
    claims = (SimulatedClaim("gpu-1-mig-1g10gb-19-0"), SimulatedClaim("gpu-2"))

    grants = granted(claiming(*claims))

    assert grants.claims == {TRAINER}
    assert grants.unmapped_count == 1
    assert [grant.device.minor for grant in grants.grants] == [2]


def test_claims_of_other_drivers_are_none_of_ours() -> None:
    claim = SimulatedClaim("gpu-1", driver="gpu.example.com")

    assert granted(claiming(claim)) == Grants()


def test_an_old_kubelet_tells_the_driver_of_a_claim_by_its_cdi_devices_only() -> None:
    part = ClaimResource(cdi_devices=[CDIDevice(name=b"k8s.gpu.nvidia.com/device=gpu-0")])
    claim = DynamicResource(claim_name=b"c", claim_resources=[part])
    container = ContainerResources(name=b"main", dynamic_resources=[claim])
    row = PodResources(name=b"trainer", namespace=b"default", containers=[container])

    grants = grants_of(ListPodResourcesResponse(pod_resources=[row]), None)

    assert grants.claims == {TRAINER}
    assert grants.grants == ()


def test_bytes_that_are_no_text_cost_no_other_pod_its_grant() -> None:
    bad = SimulatedPod("\udcff", containers=(SimulatedContainer("\udcfe", {"gpu": ("\udcfd",)}),))

    grants = granted(bad, holding("nvidia.com/gpu", CARD), holding("\udcff", CARD, name="\udcfa"))

    assert [grant.workload.pod for grant in grants.grants] == ["trainer", "�"]
    assert grants.unmapped_count == 1


def test_what_may_be_granted_is_told_share_by_share() -> None:
    allocatable = allocatable_answer(
        {"nvidia.com/gpu.shared": (f"{CARD}::1", f"{CARD}::0"), "cpu": ("7",), "gpu": ("?",)}
    )

    grants = grants_of(ListPodResourcesResponse(), allocatable)

    assert grants.managed == (DeviceId(CARD, replica=0), DeviceId(CARD, replica=1))


def test_nothing_may_be_granted_is_something_else_than_not_told() -> None:
    assert grants_of(ListPodResourcesResponse(), allocatable_answer({})).managed == ()
    assert grants_of(ListPodResourcesResponse(), None).managed is None


def test_finished_pods_hold_nothing() -> None:
    claim = SimulatedContainer(claims=(SimulatedClaim("gpu-vfio-0"),))
    grants = granted(
        holding("nvidia.com/gpu", "nvidia0", name="done"),
        holding("nvidia.com/gpu", "nvidia0", name="running"),
        SimulatedPod("done", containers=(claim,)),
    )

    live = grants.of_live_pods(lambda namespace, name: (namespace, name) == ("default", "running"))

    assert [grant.workload.pod for grant in live.grants] == ["running"]
    assert (live.claims, live.unmapped_count) == (frozenset(), grants.unmapped_count)


@given(st.binary())
def test_no_answer_that_can_be_parsed_breaks_the_reading(noise: bytes) -> None:
    container = SimulatedContainer("c", {"nvidia.com/gpu": (noise.decode("latin-1"),)})
    answer = list_answer([SimulatedPod("p", containers=(container,))])
    answer.pod_resources[0].containers[0].devices[0].device_ids.append(noise)
    answer.pod_resources[0].name = noise

    grants_of(answer, None)


def case(shared: Path, name: str) -> str:
    return (shared / "cases" / name).read_text(encoding="utf-8")


@pytest.mark.shared
def test_captured_card_of_four_pods_is_no_card_of_one(shared: Path) -> None:
    log = case(shared, "podmapping-debug-log-gke-time-slicing.log")
    rows = re.findall(r"(nvidia\S*?):\{Name:(\S+) Namespace:(\S+) Container:(\w+)\}", log)
    pods = [
        SimulatedPod(name, namespace, (SimulatedContainer(container, {"nvidia.com/gpu": (text,)}),))
        for text, name, namespace, container in rows
    ]

    grants = granted(*pods).grants

    shares = {grant.device.replica: grant.workload.pod for grant in grants}
    assert shares.pop(None) == shares[0]
    assert {share: name.rpartition("-")[2] for share, name in shares.items()} == {
        0: "hh2wr",
        1: "7jx5d",
        2: "s8qmp",
        3: "4znvt",
    }
    assert len({grant.workload for grant in grants}) == 4
    assert {grant.device.minor for grant in grants} == {0}
    assert [grant for grant in grants if not grant.is_shared] == []


@pytest.mark.shared
def test_captured_node_with_a_renamed_resource_has_cards(shared: Path) -> None:
    told = json.loads(case(shared, "node-allocatable-gpu-zero-shared-eight.json"))
    devices = {
        resource: tuple(f"{CARD}::{share}" for share in range(parse_quantity(count) or 0))
        for resource, count in told.items()
        if "gpu" in resource
    }

    managed = grants_of(ListPodResourcesResponse(), allocatable_answer(devices)).managed

    assert devices["nvidia.com/gpu"] == ()
    assert managed is not None
    assert len(managed) == 8
    assert len({device.card_uuid for device in managed}) == 1


@pytest.mark.shared
def test_captured_node_with_shared_slices(shared: Path) -> None:
    told = dict(
        re.findall(
            r"(nvidia\S+):\s+(\d+)", case(shared, "node-capacity-mig-times-time-slicing.txt")
        )
    )
    slots = parse_quantity(told["nvidia.com/gpu.shared"]) or 0
    texts = [f"MIG-{UUID[:-2]}{slot // 4:02x}::{slot % 4}" for slot in range(slots)]

    grants = grants_of(
        ListPodResourcesResponse(), allocatable_answer({"nvidia.com/gpu.shared": tuple(texts)})
    )

    assert told["nvidia.com/gpu"] == "0"
    assert grants.managed is not None
    assert len(grants.managed) == 128
    assert len({device.mig_uuid for device in grants.managed}) == 32

"""Device ids in all spellings that plugins use, and those that only look like one."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.kubelet.device_ids import (
    DeviceId,
    device_of_claim,
    is_bare_uuid,
    parse_device_id,
)

UUID = "0f3e9a52-1b2c-4d5e-8f60-718293a4b5c6"
CARD, MIG = f"GPU-{UUID}", f"MIG-{UUID}"


@pytest.mark.parametrize(
    ("text", "device"),
    [
        pytest.param(CARD, DeviceId(CARD), id="card"),
        pytest.param(f"{CARD}::3", DeviceId(CARD, replica=3), id="share of a card"),
        pytest.param(UUID, DeviceId(CARD), id="without prefix"),
        pytest.param(f"{UUID}::12", DeviceId(CARD, replica=12), id="share without prefix"),
        pytest.param(CARD.upper(), DeviceId(CARD), id="capitals"),
        pytest.param(MIG, DeviceId(mig_uuid=MIG), id="slice"),
        pytest.param(f"{MIG}::0", DeviceId(mig_uuid=MIG, replica=0), id="first share of a slice"),
        pytest.param(
            f"MIG-{CARD}/1/5",
            DeviceId(CARD, gpu_instance_id=1, compute_instance_id=5),
            id="slice as named by drivers before 470",
        ),
        pytest.param("nvidia0", DeviceId(minor=0), id="GKE card"),
        pytest.param("nvidia11/vgpu2", DeviceId(minor=11, replica=2), id="GKE share"),
        pytest.param("nvidia1/gi7", DeviceId(minor=1, gpu_instance_id=7), id="GKE slice"),
        pytest.param(
            "nvidia1/gi7/vgpu0",
            DeviceId(minor=1, gpu_instance_id=7, replica=0),
            id="GKE share of a slice",
        ),
    ],
)
def test_each_spelling_names_its_device(text: str, device: DeviceId) -> None:
    assert parse_device_id(text) == device


@pytest.mark.parametrize("text", [f"{CARD}::", f"{UUID}::", f"{MIG}::"])
def test_an_unknown_share_is_no_share_by_guess(text: str) -> None:
    device = parse_device_id(text)

    assert device is not None
    assert device == parse_device_id(text.removesuffix("::"))
    assert device.replica is None


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"MIG-{CARD}/xx/5", id="GPU instance that is no number"),
        pytest.param(f"MIG-{CARD}/1/xx", id="compute instance that is no number"),
        pytest.param(f"MIG-{CARD}/1", id="no compute instance"),
        pytest.param(f"MIG-{CARD}", id="no instances"),
        pytest.param("MIG-GPU-test/9999/9999", id="no UUID"),
        pytest.param("::1", id="no device"),
        pytest.param("poolA/gpu-x", id="device of a claim"),
        pytest.param(f"{CARD}-0", id="HAMi"),
        pytest.param(f"{CARD}::-1", id="negative share"),
        pytest.param(f"{CARD}::x", id="share that is no number"),
        pytest.param(f" {CARD}", id="space"),
        pytest.param(f"{CARD}\n", id="newline"),
        pytest.param("nvidia", id="no minor"),
        pytest.param("nvidiactl", id="control device"),
        pytest.param("nvidia0/", id="empty part"),
        pytest.param("nvidia0/vgpu1/gi0", id="parts in another order"),
        pytest.param("nvidia²", id="digit of another script"),
        pytest.param("0000:07:00.0", id="PCI address"),
        pytest.param("", id="empty"),
    ],
)
def test_what_no_rule_understands_names_no_device(text: str) -> None:
    assert parse_device_id(text) is None


@given(st.text())
def test_no_text_breaks_the_reading(text: str) -> None:
    parse_device_id(text)
    device_of_claim("gpu.nvidia.com", text)
    is_bare_uuid(text)


@given(st.integers(0, 255), st.integers(0, 13) | st.none(), st.integers(0, 99) | st.none())
def test_parts_of_a_card_are_read_back(minor: int, slice_: int | None, share: int | None) -> None:
    parts = [f"nvidia{minor}"]
    parts += [f"gi{slice_}"] if slice_ is not None else []
    parts += [f"vgpu{share}"] if share is not None else []

    assert parse_device_id("/".join(parts)) == DeviceId(
        minor=minor, gpu_instance_id=slice_, replica=share
    )


def test_a_claimed_card_is_named_by_its_minor_number() -> None:
    assert device_of_claim("gpu.nvidia.com", "gpu-3") == DeviceId(minor=3)


@pytest.mark.parametrize(
    ("driver", "name"),
    [
        pytest.param("gpu.nvidia.com", "gpu-0-mig-1g10gb-19-4", id="slice: UUID not told"),
        pytest.param("gpu.nvidia.com", "gpu-vfio-0", id="card of a virtual machine"),
        pytest.param("gpu.nvidia.com", "gpu-", id="no number"),
        pytest.param("gpu.nvidia.com", "", id="no device"),
        pytest.param("compute-domain.nvidia.com", "channel-0", id="no card"),
        pytest.param("gpu.example.com", "gpu-0", id="card of another maker"),
    ],
)
def test_other_claimed_devices_are_not_told_by_their_name(driver: str, name: str) -> None:
    assert device_of_claim(driver, name) is None


def captured(shared: Path, name: str) -> list[DeviceId | None]:
    lines = (shared / "cases" / name).read_text(encoding="utf-8").splitlines()
    return [parse_device_id(line) for line in lines if line]


@pytest.mark.shared
def test_captured_ids_of_both_plugins(shared: Path) -> None:
    card, slice_ = "d1b98d14-d06b-fc25-33fe-08918b76b180", "84e7b4f8-373a-cc5e-0815-9d350e7da8a0"

    assert captured(shared, "deviceids-nvidia-plugin-and-gke.txt") == [
        DeviceId("GPU-ae15ded4-302f-2c8a-d4d3-68ba1bcfca42"),
        DeviceId("GPU-9d5a601f-7904-d141-462b-b9e319d4b60d", replica=3),
        DeviceId(f"GPU-{card}", replica=2),
        DeviceId(mig_uuid=f"MIG-{slice_}"),
        DeviceId(mig_uuid=f"MIG-{slice_}", replica=0),
        DeviceId(f"GPU-{card}", gpu_instance_id=1, compute_instance_id=5),
        DeviceId(minor=0),
        DeviceId(minor=0, replica=1),
        DeviceId(minor=0, gpu_instance_id=0),
        DeviceId(minor=0, gpu_instance_id=0, replica=1),
    ]


@pytest.mark.shared
def test_captured_ids_that_are_malformed(shared: Path) -> None:
    without_share = [
        DeviceId("GPU-d1b98d14-d06b-fc25-33fe-08918b76b180"),
        DeviceId(mig_uuid="MIG-84e7b4f8-373a-cc5e-0815-9d350e7da8a0"),
    ]

    assert captured(shared, "deviceids-malformed.txt") == without_share + [None] * 7

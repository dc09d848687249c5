"""Words of the kernel log about network cards, and what they are not."""

from pathlib import Path

import pytest

from rightslice.exporter.host.net.nic_log import parse_nic_event


@pytest.mark.parametrize(
    ("text", "event"),
    [
        (
            "mlx5_core 0000:3b:00.0: poll_health:958:(pid 0): device's health compromised - "
            "reached miss count",
            ("0000:3b:00.0", "firmware_health"),
        ),
        (
            "mlx5_core 0000:3b:00.1: poll_health:900:(pid 0): Fatal error 3 detected",
            ("0000:3b:00.1", "firmware_health"),
        ),
        (
            "mlx5_core 0000:5c:00.0: mlx5_pcie_event:304:(pid 7): Detected insufficient power on "
            "the PCIe slot (25W).",
            ("0000:5c:00.0", "slot_power"),
        ),
        (
            "mlx5_core 0000:5c:00.0: Port module event[error]: module 1, Cable error, High "
            "Temperature",
            ("0000:5c:00.0", "module_high_temperature"),
        ),
        (
            "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, "
            "Bad or shorted cable/module",
            ("", "module_fault"),
        ),
        (
            "mlx5_core 0000:9a:00.0: mlx5_cmd_out_err:808:(pid 9): QUERY_VNIC(0x1) op_mod(0x0) "
            "failed, status bad parameter(0x3), syndrome (0x1), err(-22)",
            ("0000:9a:00.0", "command_failed"),
        ),
        ("mlx5_core 0000:3b:00.0: assert_var[0] 0x00000001", None),
        ("mlx5_core 0000:3b:00.0: synd 0x7: irisc not responding", None),
        ("mlx5_core 0000:ab:00.0 mlx5_5: Port: 1 Link ACTIVE", None),
        ("mlx5_core 0000:ab:00.0: Port module event: module 0, Cable plugged", None),
        ("nvidia 0000:3b:00.0: insufficient power on the PCIe slot", None),
    ],
)
def test_an_event_is_told_once_with_its_place(text: str, event: tuple[str, str] | None) -> None:
    assert parse_nic_event(text) == event


@pytest.mark.shared
def test_the_capture_gives_its_stated_result(shared: Path) -> None:
    text = (shared / "cases/mlx5-health-port-module-power.log").read_text(encoding="utf-8")
    events = [found for line in text.splitlines() if (found := parse_nic_event(line))]

    assert events == [
        ("0000:5e:00.0", "firmware_health"),
        ("", "module_high_temperature"),
        ("0000:5c:00.0", "slot_power"),
        ("", "command_failed"),
    ]

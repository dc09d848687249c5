"""Where a port hangs, from the operator's file and from LLDP together."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from rightslice.exporter.host.net.lldp import SwitchPort
from rightslice.exporter.host.net.lldpd import LldpFile, LldpProgram
from rightslice.exporter.host.net.network_options import NetworkOptions
from rightslice.exporter.host.net.topology import NOTHING_GIVEN, Topology, combined, lldp_source
from rightslice.exporter.host.net.topology_file import UNKNOWN, Place

RAILS = """
[[port]]
node = "gpu-17"
device = "mlx5_0"
rail = "3"

[[port]]
node = "gpu-18"
rail = "4"
"""


@dataclass
class Heard:
    """LLDP as the test says."""

    ends: Mapping[str, SwitchPort] = field(default_factory=dict)
    is_given: bool = True
    trouble: str | None = None

    def neighbors(self, now_seconds: float) -> Mapping[str, SwitchPort]:
        return self.ends


def topology(text: str | None, folder: Path, lldp: Heard | None = None) -> Topology:
    path = folder / "topology.toml"
    if text is not None:
        path.write_text(text)
    options = NetworkOptions(topology_file=path if text is not None else None)
    made = Topology("gpu-17", options, lldp or Heard())
    made.refresh(0.0)
    return made


def test_the_file_tells_the_rail_and_lldp_the_switch(tmp_path: Path) -> None:
    known = topology(RAILS, tmp_path, Heard({"eth0": SwitchPort("leaf-7", "swp1")}))

    assert known.of("mlx5_0", 1, ("eth0",)) == Place("3", "leaf-7", "swp1")
    assert known.of("mlx5_0", 1, ()) == Place("3")
    assert known.of("mlx5_1", 1, ("eth0",)) == Place(None, "leaf-7", "swp1")
    assert known.of("mlx5_1", 1, ("eth1",)) is None
    assert known.unavailable_reason is None


def test_a_bond_on_two_switches_hangs_on_no_one_switch(tmp_path: Path) -> None:
    ends = {
        "eth0": SwitchPort("leaf-7", "swp1"),
        "eth1": SwitchPort("leaf-8", "swp1"),
        "eth2": SwitchPort("leaf-7", "swp2"),
    }
    known = topology(None, tmp_path, Heard(ends))

    assert known.of("mlx5_bond_0", 1, ("bond0", "eth0", "eth1")) is None
    assert known.of("mlx5_bond_1", 1, ("bond1", "eth0", "eth2")) == Place(switch="leaf-7")


HEARD = SwitchPort("leaf-7.example", "swp1")


@pytest.mark.parametrize(
    ("written", "heard", "place"),
    [
        pytest.param(UNKNOWN, None, UNKNOWN, id="nothing"),
        pytest.param(Place("0", "a", "b"), None, Place("0", "a", "b"), id="file only"),
        pytest.param(UNKNOWN, HEARD, Place(None, "leaf-7.example", "swp1"), id="LLDP only"),
        pytest.param(
            Place(None, "leaf-7", "x"), HEARD, Place(None, "leaf-7", "x"), id="file first"
        ),
        pytest.param(
            Place(switch="LEAF-7"), HEARD, Place(None, "LEAF-7", "swp1"), id="same without domain"
        ),
        pytest.param(
            Place(switch="leaf-7.other"), HEARD, Place(switch="leaf-7.other"), id="other domain"
        ),
        pytest.param(
            Place(switch="leaf-9"), HEARD, Place(switch="leaf-9"), id="port of another switch"
        ),
        pytest.param(
            Place(switch="leaf-9"),
            SwitchPort(None, "swp1"),
            Place(switch="leaf-9"),
            id="port of a nameless switch",
        ),
    ],
)
def test_the_file_counts_for_more(written: Place, heard: SwitchPort | None, place: Place) -> None:
    assert combined(written, heard) == place


def test_news_are_read_after_half_a_minute(tmp_path: Path) -> None:
    known = topology(RAILS, tmp_path)
    assert known.of("mlx5_0", 1, ()) == Place("3")

    (tmp_path / "topology.toml").write_text(RAILS.replace('"3"', '"5"'))
    known.refresh(29.0)
    assert known.of("mlx5_0", 1, ()) == Place("3")
    known.refresh(30.0)
    assert known.of("mlx5_0", 1, ()) == Place("5")


def test_a_file_put_in_the_place_of_another_is_read(tmp_path: Path) -> None:
    known = topology(RAILS, tmp_path)
    path, new = tmp_path / "topology.toml", tmp_path / "new.toml"

    new.write_text(RAILS.replace('"3"', '"8"'))
    written_ns = path.stat().st_mtime_ns
    os.utime(new, ns=(written_ns, written_ns))  # as large and as old as the other
    new.replace(path)
    known.refresh(30.0)

    assert known.of("mlx5_0", 1, ()) == Place("8")


def test_a_file_that_went_bad_leaves_what_was_and_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    known = topology(RAILS, tmp_path)

    (tmp_path / "topology.toml").write_text(RAILS + "[[port]]\nrial = 1\n")
    for now_seconds in (30.0, 60.0, 90.0):
        known.refresh(now_seconds)

    assert known.of("mlx5_0", 1, ()) == Place("3")
    assert known.unavailable_reason is not None
    assert "topology.toml: [[port]] 3: rial = '1'" in known.unavailable_reason
    assert len(caplog.records) == 1

    (tmp_path / "topology.toml").unlink()
    known.refresh(120.0)
    assert "No such file" in known.unavailable_reason
    assert len(caplog.records) == 2

    (tmp_path / "topology.toml").write_text("[[port]]\nrail = 6\n")
    known.refresh(150.0)
    assert known.unavailable_reason is None
    assert known.of("mlx5_0", 1, ()) == Place("6")


def test_trouble_with_lldp_is_told_and_costs_the_file_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = topology(RAILS, tmp_path, Heard(trouble="lldpcli ended with 1"))

    assert known.of("mlx5_0", 1, ()) == Place("3")
    assert known.unavailable_reason == "lldpcli ended with 1"
    assert "lldpcli ended with 1" in caplog.text


def test_what_lldp_stops_hearing_is_no_longer_known(tmp_path: Path) -> None:
    lldp = Heard({"eth0": SwitchPort("leaf-7", "swp1")})
    known = topology(None, tmp_path, lldp)
    assert known.of("mlx5_0", 1, ("eth0",)) is not None

    lldp.ends = {}
    known.refresh(1.0)

    assert known.of("mlx5_0", 1, ("eth0",)) is None


def test_without_any_source_it_says_what_would_help(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = topology(None, tmp_path, Heard(is_given=False))

    assert known.unavailable_reason == NOTHING_GIVEN
    assert not caplog.records  # most nodes are so


def test_a_file_of_lldp_is_used_instead_of_the_daemon(tmp_path: Path) -> None:
    assert isinstance(lldp_source(NetworkOptions(lldp_file=tmp_path / "x")), LldpFile)
    assert isinstance(lldp_source(NetworkOptions(lldpd_socket=tmp_path / "x")), LldpProgram)

"""Flags that say where network ports hang."""

import argparse
from pathlib import Path

import pytest

from rightslice.exporter.host.net.network_options import NetworkOptions
from rightslice.exporter.network_flags import (
    add_network_flags,
    given_network_flags,
    network_options,
)


def given(*arguments: str) -> argparse.Namespace:
    flags = argparse.ArgumentParser()
    add_network_flags(flags)
    return flags.parse_args(arguments)


def test_without_flags_only_lldpd_is_asked() -> None:
    assert network_options(given()) == NetworkOptions(None, None, Path("/run/lldpd.socket"))
    assert given_network_flags(given()) == []


def test_what_is_given_is_used(tmp_path: Path) -> None:
    path = tmp_path / "topology.toml"
    path.write_text("[[port]]\nrail = 0\n")
    flags = given(
        f"--topology.file={path}", "--topology.lldp-file=/l.json", "--path.lldpd-socket=/host/l"
    )

    assert network_options(flags) == NetworkOptions(path, Path("/l.json"), Path("/host/l"))
    assert given_network_flags(flags) == ["--topology.file", "--topology.lldp-file"]


def test_devices_may_be_left_out_or_read_that_show_little() -> None:
    usual = network_options(given())
    assert (usual.excluded, usual.reads_virtual_functions) == ((), False)

    options = network_options(given("--rdma.exclude=mlx5_1*, hfi1_0", "--rdma.virtual-functions"))

    assert options.excluded == ("mlx5_1*", "hfi1_0")
    assert options.reads_virtual_functions
    assert not options.shows_idle_priorities


def test_a_bad_file_of_places_is_refused_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "topology.toml"
    path.write_text("[[port]]\nrail = true\n")

    with pytest.raises(ValueError, match=r"topology\.toml: \[\[port\]\] 1: rail = 'True': want"):
        network_options(given(f"--topology.file={path}"))


def test_no_path_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        given("--topology.file=")

    assert "want a path, got nothing" in capsys.readouterr().err

"""The deploy files: programs and tools accept what is written in them."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from rightslice.exporter.host.net.file_budget import MOST_OPEN

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
HELP = {
    "rightslice-exporter": ("rightslice.exporter", "--help"),
    "rightslice": ("rightslice.api", "serve", "--help"),
}
FLAG = re.compile(r"--[a-z][\w.-]*")
VARIABLE = re.compile(r"RIGHTSLICE_[A-Z_]+")
INSTALLED_IN = "/opt/rightslice/bin"

by_unit = pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)


def _settings(unit: Path) -> dict[str, str]:
    lines = unit.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def _flags(program: str) -> set[str]:
    module, *arguments = HELP[program]
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments], capture_output=True, text=True, check=True
    )
    return set(FLAG.findall(done.stdout))


def _variables(flags: set[str]) -> set[str]:
    return {"RIGHTSLICE_" + re.sub(r"[.-]", "_", flag[2:]).upper() for flag in flags}


@by_unit
def test_a_unit_starts_an_installed_program_with_flags_that_it_knows(unit: Path) -> None:
    path, *arguments = _settings(unit)["ExecStart"].split()
    folder, _, program = path.rpartition("/")
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    assert folder == INSTALLED_IN
    assert program in scripts["scripts"]
    assert set(FLAG.findall(" ".join(arguments))) <= _flags(program)


@by_unit
def test_a_unit_sets_only_variables_that_its_program_reads(unit: Path) -> None:
    program = _settings(unit)["ExecStart"].split()[0].rpartition("/")[2]
    found = set(VARIABLE.findall(unit.read_text(encoding="utf-8")))

    assert found - {"RIGHTSLICE_"} <= _variables(_flags(program))


def test_the_install_page_names_only_variables_that_a_program_reads() -> None:
    found = set(VARIABLE.findall((ROOT / "docs/install.md").read_text(encoding="utf-8")))

    assert found
    assert found <= _variables(_flags("rightslice-exporter") | _flags("rightslice"))


@by_unit
def test_a_unit_restarts_what_fails_and_runs_without_root(unit: Path) -> None:
    settings = _settings(unit)

    assert settings["Restart"] == "on-failure"
    assert settings["DynamicUser"] == "yes"
    assert settings["CapabilityBoundingSet"] == ""
    assert settings["NoNewPrivileges"] == "yes"
    assert settings["ProtectSystem"] == "strict"


@pytest.mark.parametrize(
    "setting",
    [
        "PrivateDevices",
        "DevicePolicy",
        "DeviceAllow",
        "ProcSubset",
        "MemoryDenyWriteExecute",
        "PrivateUsers",
        "PrivateNetwork",
        "IPAddressDeny",
    ],
)
def test_the_exporters_unit_leaves_open_what_nvml_and_the_scrape_need(setting: str) -> None:
    unit = DEPLOY / "systemd/rightslice-exporter.service"

    assert setting not in _settings(unit)
    assert setting in unit.read_text(encoding="utf-8"), "the remark says why"


def test_the_exporters_unit_lets_many_network_ports_files_be_open() -> None:
    settings = _settings(DEPLOY / "systemd/rightslice-exporter.service")

    assert int(settings["LimitNOFILE"]) >= 2 * MOST_OPEN


def test_the_service_keeps_its_ledger_where_the_unit_lets_it_write() -> None:
    settings = _settings(DEPLOY / "systemd/rightslice.service")

    assert settings["StateDirectory"] == "rightslice"
    assert "--ledger=/var/lib/rightslice/" in settings["ExecStart"]
    assert "--listen=127.0.0.1:" in settings["ExecStart"]


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
@by_unit
def test_systemd_accepts_a_unit(unit: Path, tmp_path: Path) -> None:
    # It wants the program to be there: the interpreter stands for it.
    programs = tmp_path / "bin"
    programs.mkdir()
    for program in HELP:
        (programs / program).symlink_to(sys.executable)
    text = unit.read_text(encoding="utf-8").replace(INSTALLED_IN, str(programs))
    (tmp_path / unit.name).write_text(text, encoding="utf-8")

    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / unit.name)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "warning"},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr


def _yaml(name: str) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / name).read_text("utf-8"))
    return document


def test_prometheus_accepts_its_configuration_where_the_install_page_puts_it(
    tmp_path: Path,
) -> None:
    shutil.copy(DEPLOY / "prometheus/prometheus.yml", tmp_path)
    (tmp_path / "rules").mkdir()
    shutil.copy(ROOT / "rules/rightslice.rules.yaml", tmp_path / "rules")

    done = subprocess.run(
        ["promtool", "check", "config", "--lint-fatal", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rule files found" in done.stdout


def test_the_whole_configuration_ends_with_the_scrape_part_as_it_is() -> None:
    whole = (DEPLOY / "prometheus/prometheus.yml").read_text(encoding="utf-8")

    assert whole.endswith((DEPLOY / "prometheus/scrape.yaml").read_text(encoding="utf-8"))


def test_the_scrape_keeps_our_labels_and_has_the_job_that_the_alerts_look_for() -> None:
    (job,) = _yaml("scrape.yaml")["scrape_configs"]
    rules = (ROOT / "rules/rightslice.rules.yaml").read_text(encoding="utf-8")

    assert job["honor_labels"] is True
    assert set(re.findall(r'job="([^"]+)"', rules)) == {job["job_name"]}


def test_the_scrape_finds_the_port_on_which_the_unit_listens() -> None:
    (job,) = _yaml("scrape.yaml")["scrape_configs"]
    settings = _settings(DEPLOY / "systemd/rightslice-exporter.service")
    port = settings["Environment"].rpartition(":")[2]

    assert [target.rpartition(":")[2] for target in job["static_configs"][0]["targets"]] == [port]

"""Promises that the repository as a whole keeps."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("exporter", "api", "dashboards")
REGISTRIES = ("pypi" + ".org", "pythonhosted" + ".org", "deb.debian" + ".org", "npmjs" + ".org")


def tracked() -> list[Path]:
    """List the files that belong to the repository, those not yet committed too."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        check=True,
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def text_of(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "replace")


@pytest.mark.parametrize("part", PARTS)
def test_rightslice_is_a_namespace_over_several_folders(part: str) -> None:
    assert not (ROOT / part / "rightslice" / "__init__.py").exists()


@pytest.mark.parametrize(
    "package",
    [
        pytest.param(folder, id=folder.name)
        for part in PARTS
        for folder in sorted((ROOT / part / "rightslice").iterdir())
        if folder.is_dir() and folder.name != "__pycache__"
    ],
)
def test_each_package_is_typed_documented_and_in_the_module_map(package: Path) -> None:
    assert (package / "py.typed").exists()
    assert text_of(package / "__init__.py").startswith('"""')
    assert f"`{package.relative_to(ROOT)}`" in text_of(ROOT / "README.md")


def test_the_module_map_names_only_what_exists() -> None:
    section = text_of(ROOT / "README.md").split("## Where things are")[1].split("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]

    named = [path for cell in cells for path in re.findall(r"`([^`]+)`", cell)]

    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("host", REGISTRIES)
def test_no_registry_is_named(host: str) -> None:
    assert [str(file) for file in tracked() if host in text_of(file)] == []


def test_no_place_of_a_building_machine_is_named() -> None:
    places = re.compile(r"/(?:work|root|home)/[a-z]")

    assert [str(file) for file in tracked() if places.search(text_of(file))] == []


def test_every_pinned_dependency_has_a_hash() -> None:
    for lock in sorted((ROOT / "deploy" / "lock").glob("*.txt")):
        text = text_of(lock).replace("\\\n", " ")
        pins = [line for line in text.splitlines() if line and not line.startswith("#")]
        assert all("==" in pin and "--hash=sha256:" in pin for pin in pins)


def test_the_locks_pin_what_the_project_asks_for() -> None:
    project = tomllib.loads(text_of(ROOT / "pyproject.toml"))["project"]
    service = text_of(ROOT / "deploy" / "lock" / "service.txt").lower()

    asked = [*project["dependencies"], *project["optional-dependencies"]["api"]]

    names = [re.split(r"[<>=\[]", requirement)[0].lower() for requirement in asked]
    assert [name for name in names if f"\n{name}==" not in f"\n{service}"] == []


def test_the_agent_depends_on_little() -> None:
    lock = text_of(ROOT / "deploy" / "lock" / "agent.txt")

    pinned = re.findall(r"^([a-z0-9-]+)==", lock, re.MULTILINE)

    asked, brought_by_h2 = ["h2", "nvidia-ml-py", "protobuf"], ["hpack", "hyperframe"]
    assert pinned == sorted(asked + brought_by_h2)


def test_each_line_of_the_changelog_begins_a_known_section() -> None:
    sections = re.findall(r"^### (.+)$", text_of(ROOT / "CHANGELOG.md"), re.MULTILINE)

    assert set(sections) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}

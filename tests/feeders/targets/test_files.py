"""Files of targets in Prometheus' form: found by pattern, read again, kept when they break."""

import json
import os
from pathlib import Path

import pytest

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.targets.files import TargetFiles, read_target_file
from rightslice.feeders.targets.target import Listed

ROW = {"targets": ["n1:19400"], "labels": {"node": "n1"}}
LISTED = Listed(("n1:19400",), {"node": "n1"})


def written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("a.json", json.dumps([ROW]), id="JSON"),
        pytest.param("a.json", json.dumps([ROW], indent="\t"), id="JSON with tabs"),
        pytest.param("a.yml", "- targets: [n1:19400]\n  labels: {node: n1}\n", id="YAML"),
        pytest.param("a.yaml", "[{targets: [n1:19400], labels: {node: n1}}]", id="flow"),
    ],
)
def test_json_and_yaml_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    assert read_target_file(written(tmp_path / name, text)) == (LISTED,)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        pytest.param("a.json", '[\n{"targets": ["n"]},\n]', "line 3: not JSON", id="comma"),
        pytest.param("a.json", '{"targets": ["n"]}', "line 1: must be a list", id="no list"),
        pytest.param("a.json", "", "line 1: not JSON", id="empty"),
        pytest.param("a.yml", "- a\n- {targets: [n]}\n", "line 1: must be a mapping", id="word"),
        pytest.param("a.yml", "- targets: [n]\n  lables: {}\n", "line 2: [0].lables", id="key"),
        pytest.param("a.yml", "- {}\n- targets:\n    a: b\n", "[1].targets must be", id="mapping"),
        pytest.param(
            "a.json",
            '[\n {"targets": ["n:1"]},\n {"targets": ["http://n:1"]}\n]',
            "line 3: [1].targets holds 'http://n:1', want HOST:PORT",
            id="address",
        ),
    ],
)
def test_a_broken_file_is_told_with_its_line(
    tmp_path: Path, name: str, text: str, words: str
) -> None:
    with pytest.raises(DocumentError) as told:
        read_target_file(written(tmp_path / name, text))

    assert words in str(told.value)


def test_a_pattern_finds_files_as_they_come_and_go(tmp_path: Path) -> None:
    files, pattern = TargetFiles(), str(tmp_path / "*.json")
    nothing = files.look(pattern)
    written(tmp_path / "b.json", '[{"targets": ["b:1"]}]')
    written(tmp_path / "a.json", '[{"targets": ["a:1"]}]')
    written(tmp_path / "c.yml", "- targets: [c:1]")
    both = files.look(pattern)
    (tmp_path / "a.json").unlink()
    files.forget_others([pattern])
    one = files.look(pattern)

    assert nothing == ([], [f"{pattern}: there is no such file yet"])
    assert both == ([Listed(("a:1",), {}), Listed(("b:1",), {})], [])
    assert one == ([Listed(("b:1",), {})], [])


def test_a_file_that_breaks_keeps_its_last_good_targets_and_leaves_the_others_alone(
    tmp_path: Path,
) -> None:
    files, pattern = TargetFiles(), str(tmp_path / "*.json")
    broken = written(tmp_path / "a.json", '[{"targets": ["a:1"]}]')
    other = written(tmp_path / "b.json", '[{"targets": ["b:1"]}]')
    files.look(pattern)
    written(broken, '[{"targets"')
    written(other, '[{"targets": ["b:22"]}]')

    listed, problems = files.look(pattern)
    written(broken, '[{"targets": ["a:333"]}]')
    mended = files.look(pattern)

    assert listed == [Listed(("a:1",), {}), Listed(("b:22",), {})]
    assert [problem.startswith(f"{broken}, line 1: not JSON") for problem in problems] == [True]
    assert mended == ([Listed(("a:333",), {}), Listed(("b:22",), {})], [])


def test_a_file_that_becomes_readable_without_being_written_is_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        file = tmp_path / "a.json"
        file.mkdir()  # root reads everything, but no folder
        files = TargetFiles()
        before = files.look(str(file))
        file.rmdir()
    else:
        file = written(tmp_path / "a.json", "[]")
        file.chmod(0)
        files = TargetFiles()
        before = files.look(str(file))
        file.chmod(0o600)
    written(file, json.dumps([ROW]))

    assert "cannot be read" in before[1][0]
    assert files.look(str(file)) == ([LISTED], [])

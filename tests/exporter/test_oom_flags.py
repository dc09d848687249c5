"""Flags that say how memory that ran out is looked for, and a sentence for each bad value."""

from pathlib import Path

import pytest

from rightslice.exporter.host.oom.options import OomOptions
from rightslice.exporter.settings import read_settings

GOOD = """
[[pattern]]
id = "mine"
framework = "mine"
cause = "device_alloc"
confidence = "high"
literals = ["no more memory on the card"]
regex = 'no more memory on the card, asked {requested}'
examples = [{line = "no more memory on the card, asked 2 GiB", requested = 2147483648}]
counter_examples = ["there is no more memory on the card?"]
"""


def test_without_flags_nothing_is_kept_and_nothing_more_is_read() -> None:
    assert read_settings([], {}).oom_options == OomOptions()


def test_what_is_given_is_used(tmp_path: Path) -> None:
    patterns = tmp_path / "mine.toml"
    patterns.write_text(GOOD)

    settings = read_settings(
        [
            "--oom.files=/jobs/*.out, /var/log/gpu/*.log",
            f"--oom.patterns={patterns}",
            "--oom.position-file=/var/lib/x/positions.json",
        ],
        {"RIGHTSLICE_OOM_JOURNAL_FILES": "/var/log/export/*"},
    )

    assert settings.oom_options == OomOptions(
        patterns,
        Path("/var/lib/x/positions.json"),
        ("/jobs/*.out", "/var/log/gpu/*.log"),
        ("/var/log/export/*",),
    )


def test_a_flag_given_twice_says_more_and_wins_over_the_environment() -> None:
    settings = read_settings(
        ["--oom.files=/a/*,/b", "--oom.files=/c", "--oom.journal-files", "/j"],
        {"RIGHTSLICE_OOM_FILES": "/of/the/environment"},
    )

    assert settings.oom_options == OomOptions(
        file_globs=("/a/*", "/b", "/c"), journal_globs=("/j",)
    )


def test_a_simulated_node_keeps_nothing_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    settings = read_settings(["--simulate=fleet", "--oom.position-file=/x"], {})

    assert settings.oom_options == OomOptions()
    assert "--oom.position-file has no effect with --simulate" in capsys.readouterr().err


def test_flags_of_a_collector_that_is_off_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    read_settings(["--oom.files=/x", "--no-collector.oom"], {})

    assert "--oom.files has no effect with --no-collector.oom" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("[[pattern]", "mine.toml", id="no TOML"),
        pytest.param(GOOD.replace("asked 2 GiB", "left 2 GiB"), "mine", id="example"),
        pytest.param(GOOD.replace("device_alloc", "bad_luck"), "bad_luck", id="cause"),
    ],
)
def test_a_bad_file_of_patterns_ends_the_start(
    text: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    patterns = tmp_path / "mine.toml"
    patterns.write_text(text)

    with pytest.raises(SystemExit, match="2"):
        read_settings([f"--oom.patterns={patterns}"], {})

    error = capsys.readouterr().err
    assert "--oom.patterns" in error
    assert complaint in error


@pytest.mark.parametrize("flag", ["--oom.files=jobs/*.out", "--oom.journal-files=a"])
def test_a_glob_that_depends_on_where_we_started_is_refused(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        read_settings([flag], {})

    assert "want absolute paths" in capsys.readouterr().err

"""Text of others as it may stand in a label."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.label_text import (
    MOST_CHARACTERS,
    MOST_NAME_CHARACTERS,
    command_text,
    is_name,
    label_text,
    name_text,
    without_ids,
)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("team-a", "team-a"),
        (" a b ", "a b"),
        ("a\nb\x00c\x7f", "a_b_c_"),
        ("caf\u00e9", "caf\u00e9"),
        ("half \udc80", "half _"),
        ("x" * 100, "x" * MOST_CHARACTERS),
    ],
)
def test_what_cannot_be_shown_is_replaced(text: str, clean: str) -> None:
    assert label_text(text) == clean


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("python3.11", "python3.11"),
        ("ray::48213", "ray::N"),
        ("ray::4821", "ray::N"),
        ("worker-9999", "worker-N"),
        ("w-123-4194304", "w-123-N"),
        ("(sd-pam)", "(sd-pam)"),
    ],
)
def test_a_command_holds_no_process_id(command: str, text: str) -> None:
    assert command_text(command) == text


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ("worker-57", "worker-N"),
        ("w7-570-57", "wN-570-N"),
        ("python3.11", "python3.11"),
        ("stage-1", "stage-1"),
    ],
)
def test_the_ids_of_a_process_are_taken_out_of_its_command(command: str, text: str) -> None:
    assert without_ids(command, (57, 7, 1)) == text


def test_a_name_is_kept_whole_as_far_as_kubernetes_goes() -> None:
    longest = "p" * MOST_NAME_CHARACTERS

    assert (name_text(longest), name_text(longest + "x")) == (longest, longest)
    assert name_text(" a\tb") == "a_b"


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("web-0", True),
        ("p" * MOST_NAME_CHARACTERS, True),
        ("p" * (MOST_NAME_CHARACTERS + 1), False),
        ("", False),
        ("web\x1b[31m", False),
        ("web\ud800", False),
    ],
)
def test_a_name_is_short_and_can_be_shown(text: str, is_one: bool) -> None:
    assert is_name(text) is is_one


@given(st.text())
def test_any_text_can_be_written_on_a_page(text: str) -> None:
    command_text(text).encode("utf-8")

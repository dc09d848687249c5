"""Text of others as it may stand in a label."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.label_text import (
    MOST_CHARACTERS,
    command_text,
    label_text,
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
        ("w-1234-4194304", "w-1234-N"),
        ("(sd-pam)", "(sd-pam)"),
    ],
)
def test_a_command_holds_no_process_id(command: str, text: str) -> None:
    assert command_text(command) == text


@given(st.text())
def test_any_text_can_be_written_on_a_page(text: str) -> None:
    command_text(text).encode("utf-8")

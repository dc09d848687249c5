"""Lines as messages: CRI, Docker, plain."""

import json

import pytest

from rightslice.exporter.host.oom.log_format import (
    MESSAGE_LIMIT_BYTES,
    CriOrDocker,
    Decoder,
    LogMessage,
    Plain,
)

WALL_SECONDS = 1767323045.0  # 2026-01-02T03:04:05Z


def texts(decoder: Decoder, *lines: bytes) -> list[str]:
    return [message.text for message in decoder.feed(lines)]


def docker(log: str, stream: str = "stdout", time: str = "2026-01-02T03:04:05Z") -> bytes:
    return json.dumps({"log": log, "stream": stream, "time": time}, separators=(",", ":")).encode()


@pytest.mark.parametrize(
    ("line", "text", "wall_seconds"),
    [
        pytest.param(
            b"2026-01-02T03:04:05.5Z stdout F some text", "some text", WALL_SECONDS + 0.5, id="utc"
        ),
        pytest.param(
            b"2026-01-02T05:04:05.123456789+02:00 stderr F:a:b  x ",
            " x ",
            WALL_SECONDS + 0.123456,
            id="offset and more tags",
        ),
        pytest.param(b"2026-01-02T03:04:05Z stdout F ", "", WALL_SECONDS, id="empty text"),
        pytest.param(b"2026-01-02T03:04:05Z stdout F", "", WALL_SECONDS, id="no text"),
        pytest.param(b"2026-01-02T03:04:05Z stdout F \xff\xc3", "��", WALL_SECONDS, id="not UTF-8"),
        pytest.param(b"0001-01-01T00:00:00Z stdout F x", "x", None, id="zero time of Go"),
        pytest.param(b"1970-01-01T00:00:09Z stdout F x", "x", None, id="node without a clock"),
        pytest.param(b"2026-13-02T03:04:05Z stdout F x", "x", None, id="no such month"),
        pytest.param(b"2026-01-02T03:04:05 stdout F x", "x", None, id="no zone"),
        pytest.param(b"just text", "just text", None, id="neither"),
        pytest.param(b'{"log":[[', '{"log":[[', None, id="broken JSON"),
        pytest.param(
            b'{"level":"info"}', '{"level":"info"}', None, id="a program's own JSON, unwrapped"
        ),
        pytest.param(docker("text\n"), "text", WALL_SECONDS, id="docker"),
        pytest.param(docker("\ud800\n"), "?", WALL_SECONDS, id="docker, half a surrogate pair"),
        pytest.param(docker("a\n", time="never"), "a", None, id="docker, no time"),
    ],
)
def test_line_is_read(line: bytes, text: str, wall_seconds: float | None) -> None:
    (message,) = CriOrDocker().feed([line])
    assert (message.text, message.fields) == (text, {})
    assert message.wall_seconds == pytest.approx(wall_seconds)


def test_deeply_nested_json_is_text() -> None:
    assert len(texts(CriOrDocker(), b'{"log":' + b"[" * 60_000)) == 1


def test_partial_messages_are_joined_per_stream() -> None:
    decoder = CriOrDocker()
    assert texts(decoder, b"2026-01-02T03:04:05Z stdout P CUDA out of \xc3") == []
    assert texts(decoder, b"2026-01-02T03:04:05Z stderr F other") == ["other"]
    assert decoder.is_partial
    assert texts(decoder, b"2026-01-02T03:04:09Z stdout F \xa4memory") == ["CUDA out of ämemory"]
    assert not decoder.is_partial


def test_partial_messages_of_docker_have_no_newline() -> None:
    decoder = CriOrDocker()
    assert texts(decoder, docker("CUDA out "), docker("x\n", "stderr")) == ["x"]
    assert texts(decoder, docker("of memory\n")) == ["CUDA out of memory"]


def test_joined_message_has_the_time_of_its_first_part() -> None:
    lines = [b"2026-01-02T03:04:05Z stdout P a", b"2026-01-02T03:04:01Z stdout F b"]
    assert list(CriOrDocker().feed(lines)) == [LogMessage("ab", WALL_SECONDS)]


def test_message_that_is_too_long_is_cut_and_its_end_found() -> None:
    decoder = CriOrDocker()
    part = b"2026-01-02T03:04:05Z stdout P " + b"x" * 16_000
    lines = [part] * 100 + [b"2026-01-02T03:04:05Z stdout F end"]
    assert texts(decoder, *lines) == ["x" * MESSAGE_LIMIT_BYTES]
    assert texts(decoder, b"2026-01-02T03:04:05Z stdout F next") == ["next"]


def test_message_without_its_end_is_given_by_flush() -> None:
    decoder = CriOrDocker()
    assert texts(decoder, b"2026-01-02T03:04:05Z stderr P last words") == []
    assert [message.text for message in decoder.flush()] == ["last words"]
    assert list(decoder.flush()) == []


@pytest.mark.parametrize(
    ("chunk", "may_skip"),
    [
        pytest.param(b"2026-01-02T03:04:05Z stdout F a\n", True, id="whole"),
        pytest.param(b"2026-01-02T03:04:05Z stdout P a\n", False, id="part"),
        pytest.param(b"2026-01-02T03:04:05Z stderr P:x a\n", False, id="part with tags"),
        pytest.param(docker("a\n") + b"\n", True, id="docker, whole"),
        pytest.param(docker("a\n") + b"\n" + docker("a") + b"\n", False, id="docker, part"),
    ],
)
def test_chunk_may_be_skipped_unless_it_begins_a_message(chunk: bytes, *, may_skip: bool) -> None:
    assert CriOrDocker().may_skip(chunk) is may_skip


def test_plain_lines_have_no_time() -> None:
    assert list(Plain().feed([b"a\xff", b"x" * 70_000])) == [
        LogMessage("a�", None),
        LogMessage("x" * MESSAGE_LIMIT_BYTES, None),
    ]

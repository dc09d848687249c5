import json
import re
import time
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.oom import standing
from rightslice.exporter.host.oom.parts import (
    MOST_CHARS_READ,
    MOST_PARTS,
    WINDOW_CHARS,
    parts_of,
)
from rightslice.exporter.host.oom.pattern import IGNORE, Example, Pattern
from rightslice.exporter.host.oom.patterns import OomMatch, PatternError, load_patterns
from rightslice.exporter.host.oom.regex_cost import attempts_at_most
from rightslice.exporter.host.oom.standing import QUOTED_CONTENT

PATTERNS = load_patterns()
GIB = 1 << 30

EXAMPLES = [
    pytest.param(pattern, example, id=f"{pattern.id}-{number}")
    for pattern in PATTERNS.patterns
    for number, example in enumerate(pattern.examples)
]
COUNTER_EXAMPLES = [
    pytest.param(pattern, line, id=f"{pattern.id}-{number}")
    for pattern in PATTERNS.patterns
    for number, line in enumerate(pattern.counter_examples)
]
TORCH = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. "
    "GPU 0 has a total capacity of 24.00 GiB of which 1.00 GiB is free."
)
TEXT = Path(__file__).with_name("lines.toml").read_text().replace("<torch>", TORCH)
LINES = tomllib.loads(TEXT)


def found(line: str) -> OomMatch:
    match = PATTERNS.match(line)
    assert match is not None
    assert PATTERNS.may_match(line.encode())
    return match


@pytest.mark.parametrize(("pattern", "example"), EXAMPLES)
def test_each_example_is_found_by_its_own_pattern(pattern: Pattern, example: Example) -> None:
    match = PATTERNS.match(example.line)

    if pattern.role == IGNORE:
        assert match is None
        return
    assert match is not None
    assert match.pattern_id == pattern.id
    assert match.confidence == pattern.confidence
    assert dict(match.sizes_bytes) == dict(example.sizes_bytes)
    assert match.device == example.device
    assert PATTERNS.may_match(example.line.encode())


@pytest.mark.parametrize(("pattern", "line"), COUNTER_EXAMPLES)
def test_no_counter_example_is_found_by_its_pattern(pattern: Pattern, line: str) -> None:
    match = PATTERNS.match(line)

    assert match is None or match.pattern_id != pattern.id


def test_each_pattern_has_an_example() -> None:
    assert [pattern.id for pattern in PATTERNS.patterns if not pattern.examples] == []


# Captures: how many lines open an incident, and what is read from them.


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "framework", "expected"),
    [
        (
            "oom-cupy-three-wordings",
            "cupy",
            [(1073741824, None), (1200000000, None), (25600000, None)],
        ),
        ("oom-jax-resource-exhausted-tiny", "jax", [(6291456, None)]),
        ("oom-llamacpp-same-oom-four-times", "llama.cpp", [(10345250816, 1)] * 4),
        ("oom-nccl-calloc-6mib", "nccl", [(None, 0)]),
        ("oom-nccl-flood-alternating", "nccl", [(None, 2)] * 4),
        ("oom-onnxruntime-bfcarena-gpu", "onnxruntime", [(939524096, None)]),
        ("oom-pytorch-old-cached-wording", "pytorch", [(8729521029, 0)]),
        ("oom-pytorch-reserved-wording-gpu1", "pytorch", [(1771674010, 1), (67108864, 0)]),
        ("oom-tensorrtllm-cudamallocasync", "tensorrt-llm", [(None, None)] * 2),
        ("oom-vllm-cuda-driver-error-no-size", "pytorch", [(None, None)]),
        ("oom-vllm-ray-prefix-kib", "pytorch", [(2097152, 6)]),
    ],
)
def test_each_capture_gives_its_stated_events(
    shared: Path, name: str, framework: str, expected: list[tuple[int | None, int | None]]
) -> None:
    lines = (shared / "cases" / f"{name}.log").read_text().splitlines()
    matches = [match for match in map(PATTERNS.match, lines) if match and not match.is_detail]

    assert {match.framework for match in matches} == {framework}
    assert {match.cause for match in matches} == {"device_alloc"}
    assert [(m.sizes_bytes.get("requested"), m.device) for m in matches] == expected


@pytest.mark.shared
@pytest.mark.parametrize(
    ("name", "size", "size_bytes"),
    [
        ("oom-pytorch-old-cached-wording", "free", 8804682957),
        ("oom-pytorch-old-cached-wording", "capacity", 11553462026),
        ("oom-pytorch-reserved-wording-gpu1", "free", 0),
        ("oom-vllm-ray-prefix-kib", "free", 458752),
        ("oom-vllm-ray-prefix-kib", "capacity", 47813723423),
        ("oom-nccl-calloc-6mib", "requested", 6291456),
        ("oom-llamacpp-same-oom-four-times", "requested", 10345253120),
    ],
)
def test_sizes_of_captures_are_those_stated(
    shared: Path, name: str, size: str, size_bytes: int
) -> None:
    lines = (shared / "cases" / f"{name}.log").read_text().splitlines()
    matches = [match for match in map(PATTERNS.match, lines) if match]

    assert size_bytes in [match.sizes_bytes.get(size) for match in matches]


@pytest.mark.shared
def test_captures_without_an_event_have_no_failed_allocation(shared: Path) -> None:
    files = sorted((shared / "cases").glob("notoom-*.log"))
    causes = {
        (file.name, match.cause)
        for file in files
        for match in map(PATTERNS.match, file.read_text().splitlines())
        if match
    }

    assert files
    assert causes == {("notoom-vllm-kv-cache-budget.log", "startup_capacity")}


# Lines of the shapes that logs have.


@pytest.mark.parametrize("told", LINES["found"])
def test_lines_as_logs_have_them_are_found(told: Mapping[str, Any]) -> None:
    match = found(told["line"])

    assert (match.framework, match.confidence) == (told["framework"], told["confidence"])
    assert match.sizes_bytes.get("requested") == told.get("requested")
    assert match.device == told.get("device")
    assert match.cause == "device_alloc"


@pytest.mark.parametrize("line", LINES["false_friends"])
def test_false_friends_are_not_found(line: str) -> None:
    assert PATTERNS.match(line) is None


@pytest.mark.parametrize("line", LINES["content"])
def test_what_was_sent_to_a_model_is_no_error(line: str) -> None:
    assert PATTERNS.match(line) is None


@pytest.mark.parametrize("line", LINES["echoed"])
def test_what_is_only_shown_is_no_error(line: str) -> None:
    assert PATTERNS.match(line) is None


@pytest.mark.parametrize("line", LINES["quoted"])
def test_an_error_in_the_midst_of_other_text_counts_little(line: str) -> None:
    assert found(line).confidence == "low"


@pytest.mark.parametrize("key", ["msg", "message", "error", "exc_info", "stack_trace"])
def test_the_message_of_a_json_log_counts_fully(key: str) -> None:
    line = json.dumps({"level": "error", key: f"Traceback\n  File x\nRuntimeError: {TORCH}"})

    assert found(line).confidence == "high"
    assert found(f"app-1  | {line}").sizes_bytes["free"] == GIB


def test_a_json_line_that_was_cut_is_read_as_text() -> None:
    assert found(f'{{"level":"error","msg":"RuntimeError: {TORCH} ...').confidence == "high"


def test_an_error_behind_a_prompt_that_ends_is_found() -> None:
    line = f"ERROR failed on prompt: 'hello', error: RuntimeError: {TORCH}"

    assert found(line).confidence == "high"


def test_sizes_that_cannot_be_are_told_apart() -> None:
    match = found(
        "onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested "
        "buffer of size 4585490524328388608"
    )

    assert dict(match.sizes_bytes) == {}
    assert match.implausible == ("requested",)


def test_what_opens_an_incident_goes_before_its_details() -> None:
    detail = "ggml_gallocr_reserve_n: failed to allocate CUDA1 buffer of size 1024"
    opening = "CUDA error: out of memory"

    assert found(detail).is_detail
    assert not found(f"{detail}\r{opening}").is_detail


# The test of a chunk.


def test_the_literals_are_few() -> None:
    assert len(PATTERNS.literals) <= 16
    assert all(len(literal) >= 10 for literal in PATTERNS.literals)


def test_a_chunk_of_ordinary_lines_holds_nothing() -> None:
    chunk = (
        b"INFO 05-05 07:35:19 [loggers.py:123] Engine 000: GPU KV cache usage: 12.3%, memory ok\n"
        b'10.0.0.1:5555 - "POST /v1/chat/completions HTTP/1.1" 200 OK\nValueError: bad input\n'
    )

    assert not PATTERNS.may_match(chunk * 100)


OWN_LINES = [example.line for p in PATTERNS.patterns for example in p.examples]


@given(st.text(max_size=200), st.sampled_from(OWN_LINES), st.text(max_size=200))
def test_a_line_that_matches_never_fails_the_test_of_its_chunk(
    before: str, line: str, behind: str
) -> None:
    message = before + line + behind
    match = PATTERNS.match(message)

    assert match is None or PATTERNS.may_match(message.encode("utf-8", "surrogatepass"))


@given(
    st.lists(
        st.one_of(
            st.text(max_size=40),
            st.sampled_from([*PATTERNS._texts, "{", "}", '"', "\r", "\x1b[1m", "prompt: '"]),
        )
    )
)
def test_no_text_makes_the_search_fail(pieces: list[str]) -> None:
    PATTERNS.match("".join(pieces))


@pytest.mark.parametrize(
    "piece",
    ["CUDA error ", "cudaMalloc fail ", "prompt: '", "a.b.c ", "[", "{", '{"a":', "[1] x ",
     "NCCL WARN [", "OOM when allocating tensor with shape[1] ", "std::bad_alloc: RMM failure at: ",
     "[TensorRT-LLM][ERROR] CUDA runtime error in ", "failed to load ", "x=1 ", "1:1:1 ", "w/w."],
)  # fmt: skip
def test_the_longest_line_takes_no_second(piece: str) -> None:
    message = (piece * (70_000 // len(piece))) + "".join(PATTERNS._texts)
    message = "".join(PATTERNS._texts) + message
    started_seconds = time.perf_counter()

    PATTERNS.match(message)

    assert time.perf_counter() - started_seconds < 1


def chars_read(message: str) -> int:
    return sum(min(len(part.text), WINDOW_CHARS) for part in parts_of(message, PATTERNS._texts))


def test_few_lines_of_one_message_are_read() -> None:
    message = "\r".join(["RuntimeError: CUDA out of memory"] * 1500)

    assert len(list(parts_of(message, PATTERNS._texts))) == MOST_PARTS


@pytest.mark.parametrize("chars", [100, 3000, 30_000])
def test_little_text_of_one_message_is_read(chars: int) -> None:
    message = "\r".join(["x" * chars + "CUDA out of memory"] * (65_000 // chars))

    assert chars_read(message) <= MOST_CHARS_READ + WINDOW_CHARS


def test_the_quotes_of_a_message_are_looked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scans: list[str] = []

    class Scanned:
        def finditer(self, text: str) -> Iterator[re.Match[str]]:
            scans.append(text)
            return QUOTED_CONTENT.finditer(text)

    monkeypatch.setattr(standing, "QUOTED_CONTENT", Scanned())

    assert PATTERNS.match("prompt: '" + "\r".join([TORCH] * 300)) is None
    assert len(scans) == 1


@pytest.mark.parametrize("fill", ["", "x" * 3000, "word " * 6000])
def test_an_error_deep_in_a_long_line_is_found(fill: str) -> None:
    assert found(f"ERROR {fill}: RuntimeError: {TORCH} {fill}").confidence == "high"


def test_a_long_line_is_ignored_by_what_stands_at_its_head_or_beside_the_error() -> None:
    fill = "x " * 5000
    level = "2023-05-02 10:11:12.131415: I tensorflow/cuda_driver.cc:753] "

    assert PATTERNS.match(f"{level}{fill}: RuntimeError: {TORCH}") is None
    assert PATTERNS.match(f"{fill}: cudaHostAlloc: RuntimeError: {TORCH}") is None


def test_an_error_behind_many_quotes_that_end_is_found() -> None:
    assert found("prompt: 'a', text: \"b\", " * 50 + f"error: RuntimeError: {TORCH}")


def test_what_a_user_said_is_no_error_whatever_its_field_is_called() -> None:
    said = {"role": "user", "message": f"RuntimeError: {TORCH}"}

    assert PATTERNS.match(json.dumps(said)) is None
    assert PATTERNS.match(json.dumps({"event": said})) is None
    assert found(json.dumps({**said, "role": "worker"})).confidence == "high"


# A user's own file.

OWN = """
[[pattern]]
id = "own"
framework = "ours"
cause = "device_alloc"
confidence = "high"
literals = ["VRAM exhausted"]
regex = 'VRAM exhausted on {device}: want {requested}'
examples = [{ line = "VRAM exhausted on 3: want 1.00 GiB", device = 3, requested = 1073741824 }]
counter_examples = ["VRAM exhausted"]
"""


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own.toml"
    path.write_text(text)
    return path


def test_a_pattern_of_a_user_adds_to_ours(tmp_path: Path) -> None:
    patterns = load_patterns(write(tmp_path, OWN))
    match = patterns.match("2026-01-01 00:00:00 ERROR VRAM exhausted on 1: want 2.00 GiB")

    assert match is not None
    assert (match.pattern_id, match.framework, match.device) == ("own", "ours", 1)
    assert patterns.may_match(b"VRAM exhausted on 1: want 2.00 GiB")
    assert patterns.match(f"RuntimeError: {TORCH}") is not None


def test_a_pattern_of_a_user_goes_before_ours(tmp_path: Path) -> None:
    own = OWN.replace("VRAM exhausted on {device}: want", "CUDA out of memory. Tried to allocate")
    own = own.replace("VRAM exhausted on 3: want", "CUDA out of memory. Tried to allocate")
    own = own.replace("device = 3, ", "").replace(
        '"VRAM exhausted"]\nregex', '"out of memory"]\nregex'
    )
    match = load_patterns(write(tmp_path, own)).match(f"RuntimeError: {TORCH}")

    assert match is not None
    assert match.framework == "ours"


def test_a_user_can_ignore_what_we_would_find(tmp_path: Path) -> None:
    own = '[[pattern]]\nid = "quiet"\nrole = "ignore"\nregex = "retry-wrapper"\n'
    patterns = load_patterns(write(tmp_path, own))

    assert patterns.match(f"retry-wrapper: RuntimeError: {TORCH}") is None
    assert patterns.match(f"RuntimeError: {TORCH}") is not None


def test_what_a_user_ignores_goes_before_all_else_wherever_it_stands(tmp_path: Path) -> None:
    quiet = '[[pattern]]\nid = "quiet"\nrole = "ignore"\nregex = "retry-wrapper"\n'
    patterns = load_patterns(write(tmp_path, OWN + quiet))

    assert patterns.match("VRAM exhausted on 1: want 2.00 GiB") is not None
    assert patterns.match("retry-wrapper: VRAM exhausted on 1: want 2.00 GiB") is None


def test_a_user_s_entry_takes_the_place_of_ours_with_its_id(tmp_path: Path) -> None:
    own = OWN.replace('"own"', '"cuda-library"')
    patterns = load_patterns(write(tmp_path, own))

    assert patterns.match("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED") is None


def test_a_user_s_regex_sees_8_kib_at_most(tmp_path: Path) -> None:
    patterns = load_patterns(write(tmp_path, OWN))

    assert patterns.match("x" * 9000 + ": VRAM exhausted on 1: want 2.00 GiB") is None


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('id = "own"', "", "pattern number 1: id: None"),
        ('id = "own"', 'id = "Own One"', "id: 'Own One'"),
        ('"device_alloc"', '"host_alloc"', "cause: 'host_alloc': want one of device_alloc"),
        ('"high"', '"sure"', "confidence: 'sure': want one of high, medium, low"),
        ('confidence = "high"', 'confidence = "high"\ncolour = "red"', "colour: 'red': keys are"),
        ('["VRAM exhausted"]\nregex', "[]\nregex", "literals: []: give a text"),
        ('["VRAM exhausted"]\nregex', '["OOM"]\nregex', "literals: 'OOM': want 6 to 200"),
        ("{requested}'", "(?P<asked>1)'", "regex: 'asked': groups are"),
        ("{requested}'", "{requested}('", "it is no regular expression"),
        ("'VRAM exhausted on {device}: want {requested}'", "'.*'", "it matches an empty line"),
        ("on 3: want", "at 3: want", "it does not match"),
        ("device = 3", "device = 4", "the device in it is read as 3"),
        ("1073741824", "1", "the sizes in it are read as {'requested': 1073741824}"),
        ('r_examples = ["', 'r_examples = ["VRAM exhausted on 1: want 1", "', "it matches"),
        ("[[pattern]]", "[[patterns]]", "unknown key 'patterns'"),
        ('id = "own"', 'id = "own', "is no TOML"),
        ('confidence = "high"', 'confidence = "high"\nhead_only = 1', "head_only: 1: want true"),
        ("device = 3", "device = 3, unit = 1", "unit: 1: keys are"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_refused_with_its_place_and_a_remedy(
    tmp_path: Path, old: str, new: str, told: str
) -> None:
    path = write(tmp_path, OWN.replace(old, new))

    with pytest.raises(PatternError) as error:
        load_patterns(path)

    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)


def own_regex(tmp_path: Path, regex: str) -> Path:
    lines = [f"regex = '{regex}'" if "regex" in line else line for line in OWN.splitlines()[:-2]]
    return write(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    "regex",
    [
        r"VRAM exhausted (\w+\s?)+\.$", r"VRAM exhausted(a*)*b", r"VRAM exhausted (a|a)+$",
        r"VRAM exhausted (?:\w{1,3})+$", r"VRAM exhausted (?:a{1,50}){1,50}b",
        r"VRAM exhausted (?:a?){50}b", r"VRAM exhausted (?:a|ab|b)*c", r"VRAM .*exhausted.*on .*x",
        r"(?i)VRAM exhausted K+\u212a+k+$", r"VRAM exhausted(?=(a+)+b)", r"VRAM (e+)\1+x",
        r"(a+)+$", r"(.*)*x", r"(\w+\s?)+:", r"(a|a)*b", r"(a|ab|b)*c", r"(a?){30}a{30}",
        r"\s*\s*x", r".*.*.*x", r"a+b*a+c", r".*:[^x]*x", r"VRAM exhausted.*\s+\d",
        r"\s*\s*\s*VRAM exhausted", r"VRAM exhausted[^\n]{0,200}a[^\n]{0,200}b[^\n]{0,200}c",
    ],
)  # fmt: skip
def test_a_regex_that_could_run_for_hours_is_refused(tmp_path: Path, regex: str) -> None:
    with pytest.raises(PatternError, match=r"'own': regex: .* on some lines it would run for hou"):
        load_patterns(own_regex(tmp_path, regex))


@pytest.mark.parametrize(
    "regex",
    [
        r"VRAM exhausted.*x", r"VRAM exhausted on \w+: want \S+",
        r"(?:[0-9]{1,3}\.){3}[0-9]{1,3} VRAM",
        r"VRAM exhausted (?:foo|bar)+x", r"VRAM exhausted[^\n]{0,100}on[^\n]{0,60}want",
        r"VRAM exhausted.*{requested}", r"VRAM.*: *[0-9]", r"^\s*\s*VRAM",
        r"^\S+ VRAM exhausted: {requested} of {capacity}, {free} free, {limit} allowed",
    ],
)  # fmt: skip
def test_a_regex_that_ends_soon_is_taken(tmp_path: Path, regex: str) -> None:
    assert load_patterns(own_regex(tmp_path, regex)).patterns[0].regex.search("x") is None


@pytest.mark.parametrize(
    ("regex", "attempts"),
    [
        ("abc", 101 // 3), (r"^a[0-9]+:", 1), (r"\Aa.*b", 101), ("ab.*c", 51 * 101),
        ("(?:ab|cd)+e", 100 * 101), ("^a.*b*c", 101 * 26), ("^a.*:b*c", 101),
        ("(?:ab|c)defg.*h", 52 * 101), ("^x[0-9]{0,4}[0-9]y", 5), ("^x(?:a|ab)y", 2),
        ("^x[0-9]{2,4}$", 3), ("^x[a-c]{0,9}(?![a-c])d", 1), ("^(?:[0-9]{1,3}[0-9]){2}x", 9),
    ],
)  # fmt: skip
def test_the_attempts_of_a_regex_are_bounded(regex: str, attempts: int) -> None:
    assert attempts_at_most(regex, 100) == pytest.approx(attempts, abs=1)


@pytest.mark.parametrize(
    ("regex", "line"),
    [
        (r"VRAM exhausted (a+)+$", "VRAM exhausted " + "a" * 60 + "!"),
        (r"(?:a?|b?){60}c", "VRAM exhausted"),  # on an empty line too
    ],
)
def test_a_regex_is_measured_before_it_runs(tmp_path: Path, regex: str, line: str) -> None:
    path = own_regex(tmp_path, regex)
    path.write_text(path.read_text() + f'\nexamples = [{{ line = "{line}" }}]\n')
    started_seconds = time.perf_counter()

    with pytest.raises(PatternError, match="would run for hours"):
        load_patterns(path)

    assert time.perf_counter() - started_seconds < 1


def test_two_entries_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PatternError, match="two entries have the id 'own'"):
        load_patterns(write(tmp_path, OWN + OWN))


def test_a_file_of_a_mebibyte_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PatternError, match="has 1 MiB or more"):
        load_patterns(write(tmp_path, "#" * (1 << 20)))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PatternError, match="is no file"):
        load_patterns(tmp_path / "none.toml")


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(b"# \xff")

    with pytest.raises(PatternError, match="is not UTF-8"):
        load_patterns(path)


def test_the_example_in_the_docs_does_what_it_says(tmp_path: Path) -> None:
    page = (Path(__file__).parents[4] / "docs" / "oom-patterns.md").read_text()
    patterns = load_patterns(write(tmp_path, page.split("```toml\n")[1].split("```")[0]))
    line = "VRAM exhausted on 3: want 1.00 GiB"

    assert patterns.match(line) is not None
    assert patterns.match(f"batch size finder: {line}") is None

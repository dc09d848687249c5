"""Every complaint about a document names the file, the line and the key."""

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rightslice.catalogue.located_yaml import DocumentError, Section, read_document, read_sections


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("documents") / "book.yml"


def section(file: Path, text: str) -> Section:
    file.write_text(text, encoding="utf-8")
    return read_document(file)


def complaint_about(file: Path) -> str:
    """Read a document to its end; give the complaint, empty if there is none."""
    try:
        read_document(file).finish()
    except DocumentError as refusal:
        return str(refusal)
    return ""


def test_scalars_are_read_as_written(file: Path) -> None:
    top = section(file, "name: T4\nprice: 1_250.10\nshare: 0.05\ncards: 8\nelastic: True\n")

    assert top.text("name") == "T4"
    assert str(top.number("price")) == "1250.10"
    assert top.ratio("share") == Decimal("0.05")
    assert top.count("cards") == 8
    assert top.flag("elastic", default=False)


@pytest.mark.parametrize("text", ["{}", "key:", "key: null", "key: ~"])
def test_what_is_not_given_takes_its_default(file: Path, text: str) -> None:
    top = section(file, text)

    assert not top.has("key")
    assert top.text("key", "word") == "word"
    assert top.one_of("key", ("word", "other"), "word") == "word"
    assert top.number("key", Decimal(3)) == 3
    assert top.ratio("key", Decimal("0.5")) == Decimal("0.5")
    assert top.flag("key", default=True)
    assert top.section("key") is None
    assert list(top.sections("key")) == []


def test_a_text_that_looks_like_null_is_text_when_quoted(file: Path) -> None:
    assert section(file, "key: 'null'").text("key") == "null"


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        pytest.param("key: 900", (900, 900), id="one number"),
        pytest.param("key: [800, 1200]", (800, 1200), id="range"),
        pytest.param("key: [5, 5]", (5, 5), id="range of one number"),
    ],
)
def test_a_number_may_be_a_range(file: Path, text: str, ends: tuple[int, int]) -> None:
    low, high = ends

    assert section(file, text).numbers("key") == (Decimal(low), Decimal(high))


def test_nested_mappings_are_named_by_their_path(file: Path) -> None:
    top = section(file, "rows:\n  - {name: a}\n  - name: b\n    inner:\n      deep: x\n")

    first, second = top.sections("rows")
    inner = second.section("inner")

    assert first.path == "rows[0]"
    assert inner is not None
    assert inner.keys() == ("deep",)
    with pytest.raises(DocumentError, match=r", line 5: rows\[1\]\.inner\.deep must be a number"):
        inner.number("deep")


@pytest.mark.parametrize(
    ("value", "read", "complaint"),
    [
        pytest.param("", "text", "key is missing; add it", id="missing"),
        pytest.param("key: [a]", "text", "key must be a single value", id="list for a word"),
        pytest.param("key: {a: b}", "number", "key must be a single value", id="mapping"),
        pytest.param("key: dear", "number", "key must be a number, got 'dear'", id="word"),
        pytest.param("key: ''", "number", "key must be a number, got ''", id="empty text"),
        pytest.param("key: .nan", "number", "key must be a number, got '.nan'", id="YAML NaN"),
        pytest.param("key: NaN", "number", "key must be a finite number, got 'NaN'", id="NaN"),
        pytest.param("key: -Inf", "number", "key must be a finite number, got '-Inf'", id="Inf"),
        pytest.param(
            "key: 1e999999",
            "number",
            "key must have fewer digits: it is no price, size or share",
            id="huge exponent",
        ),
        pytest.param(
            "key: 0.12345678901234567890123456789",
            "number",
            "key must have fewer digits: it is no price, size or share",
            id="too many digits",
        ),
        pytest.param(
            "key: 20", "ratio", "key must be between 0 and 1, got 20; 20 % is written 0.20", id="%"
        ),
        pytest.param(
            "key: -0.1",
            "ratio",
            "key must be between 0 and 1, got -0.1; 20 % is written 0.20",
            id="negative share",
        ),
        pytest.param("key: 0", "count", "key must be a whole number above 0, got 0", id="none"),
        pytest.param("key: 2.5", "count", "key must be a whole number above 0, got 2.5", id="half"),
        pytest.param("key: -8", "count", "key must be a whole number above 0, got -8", id="less"),
        pytest.param(
            "key: [3, 1]",
            "numbers",
            "key range is upside down: 3 to 1; write [low, high]",
            id="upside down",
        ),
        pytest.param(
            "key: [1, 2, 3]", "numbers", "key must be one number or a range [low, high]", id="three"
        ),
        pytest.param(
            "key: []", "numbers", "key must be one number or a range [low, high]", id="empty range"
        ),
        pytest.param(
            "key: [1, [2]]",
            "numbers",
            "key must be a number, got a list or a mapping",
            id="range in a range",
        ),
        pytest.param(
            "key: [null, 3]", "numbers", "key must be a number, got 'null'", id="unknown low end"
        ),
        pytest.param("key: null", "numbers", "key is missing; add it", id="unknown number"),
        pytest.param(
            "key: '(A100'",
            "pattern",
            "key is not a regular expression: missing ), unterminated subpattern at position 0",
            id="bad pattern",
        ),
        pytest.param(
            "key: 'a{99999999999}'",
            "pattern",
            "key is not a regular expression: the repetition number is too large",
            id="huge repetition",
        ),
        pytest.param("key: word", "section", "key must be a mapping of keys to values", id="word"),
        pytest.param("key: [a]", "section", "key must be a mapping of keys to values", id="list"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(
    file: Path, value: str, read: str, complaint: str
) -> None:
    top = section(file, f"other: 1\n{value}\n")

    with pytest.raises(DocumentError) as refusal:
        getattr(top, read)("key")

    assert str(refusal.value).partition(", line ")[0] == str(file)
    assert str(refusal.value).partition(": ")[2] == complaint


def test_a_complaint_names_the_line_of_the_key(file: Path) -> None:
    top = section(file, "\n# a remark\nkey: dear\n")

    with pytest.raises(DocumentError, match=", line 3: key must"):
        top.number("key")


def test_a_word_outside_the_set_is_refused_with_the_set(file: Path) -> None:
    top = section(file, "evidence: rumour\n")

    with pytest.raises(DocumentError, match="must be one of listed, estimate, got 'rumour'"):
        top.one_of("evidence", ("listed", "estimate"), "listed")


def test_a_flag_is_true_or_false_and_nothing_else(file: Path) -> None:
    top = section(file, "elastic: maybe\n")

    with pytest.raises(DocumentError, match="line 1: elastic must be true or false, got 'maybe'"):
        top.flag("elastic", default=False)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("rows: {a: b}", "line 1: rows must be a list", id="mapping"),
        pytest.param("rows: word", "line 1: rows must be a list", id="word"),
        pytest.param(
            "rows:\n  - a: b\n  - word\n",
            "line 3: rows must be a mapping of keys to values",
            id="word among mappings",
        ),
    ],
)
def test_a_list_of_mappings_holds_mappings(file: Path, text: str, complaint: str) -> None:
    top = section(file, text)

    with pytest.raises(DocumentError, match=complaint):
        list(top.sections("rows"))


def test_a_key_that_nobody_read_is_refused_with_those_that_are_known(file: Path) -> None:
    top = section(file, "name: T4\nprise: 850\n")
    top.text("name")
    top.has("price")

    with pytest.raises(
        DocumentError, match="line 2: prise is not a known key; known here: name, price"
    ):
        top.finish()


def test_a_document_read_in_full_is_finished_without_complaint(file: Path) -> None:
    top = section(file, "name: T4\n")
    top.text("name")

    top.finish()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        pytest.param(b"", ", line 1: must be a mapping of keys to values", id="empty"),
        pytest.param(b"- a\n- b\n", ", line 1: must be a mapping of keys to values", id="list"),
        pytest.param(b"word", ", line 1: must be a mapping of keys to values", id="word"),
        pytest.param(b"a: 1\nb: 2\na: 3\n", ", line 3: a is given twice; keep one", id="twice"),
        pytest.param(
            b"a: 1\n? [b, c]\n: 2\n", ", line 2: ? is no key; write a single word", id="list as key"
        ),
        pytest.param(b"a: 1\nb: [1,\n", ", line 3: not YAML: ", id="open list"),
        pytest.param(b"a: 1\n\tb: 2\n", ", line 2: not YAML: ", id="tab"),
        pytest.param(b"a: *nowhere\n", ", line 1: not YAML: ", id="unknown alias"),
        pytest.param(b"a: 1\n---\nb: 2\n", ", line 2: not YAML: ", id="two documents"),
        pytest.param(b"a: \x00\n", ": not YAML: ", id="NUL"),
        pytest.param(b"a: \xff\n", ": is not UTF-8 text; save it as UTF-8: ", id="Latin-1"),
        pytest.param(b"\xff\xfea\x00:\x00", ": is not UTF-8 text; save it as UTF-8: ", id="UTF-16"),
        pytest.param(b"[" * 5000, ": is nested too deep; a few levels are all it needs", id="deep"),
    ],
)
def test_what_is_no_document_is_refused_with_its_place(
    file: Path, content: bytes, complaint: str
) -> None:
    file.write_bytes(content)

    with pytest.raises(DocumentError) as refusal:
        read_document(file)

    assert str(refusal.value).startswith(f"{file}{complaint}")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.yml"

    with pytest.raises(DocumentError) as refusal:
        read_document(missing)

    assert str(refusal.value) == f"{missing}: cannot be read: No such file or directory"


def test_a_folder_is_no_document(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read: Is a directory"):
        read_document(tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_key(file: Path) -> None:
    assert section(file, "\ufeffname: T4\n").text("name") == "T4"


def test_tags_of_other_languages_create_nothing(file: Path) -> None:
    top = section(file, "key: !!python/object/apply:os.getcwd []\n")

    with pytest.raises(DocumentError, match="key must be a single value"):
        top.text("key")


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(file: Path, content: bytes) -> None:
    file.write_bytes(content)

    complaint = complaint_about(file)

    assert complaint == "" or complaint.startswith(str(file))


@settings(deadline=None)
@given(st.decimals(min_value=-(10**15), max_value=10**15, places=5))
def test_a_number_is_what_was_written(file: Path, number: Decimal) -> None:
    assert section(file, f"key: {number}").number("key") == number


def test_a_list_of_mappings_is_read_and_a_mistake_in_one_is_told_with_its_place(
    tmp_path: Path,
) -> None:
    file = tmp_path / "list.yml"
    file.write_text("- {a: 1}\n- {a: 2}\n", encoding="utf-8")

    first, second = read_sections(file)

    assert (first.text("a"), second.text("a")) == ("1", "2")
    with pytest.raises(DocumentError, match=r"line 2: \[1\]\.b is missing"):
        second.text("b")


@pytest.mark.parametrize(
    ("text", "words"), [("a: 1", "line 1: must be a list"), ("- {}\n- 5\n", "line 2: must be a")]
)
def test_a_list_of_something_else_is_refused(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "list.yml"
    file.write_text(text, encoding="utf-8")

    with pytest.raises(DocumentError, match=words):
        read_sections(file)

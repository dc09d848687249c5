"""Golden files: whole outputs under review."""

from pathlib import Path


def assert_golden(path: Path, text: str, *, update: bool) -> None:
    """Compare a text with its golden file, or rewrite that."""
    if update:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path} is missing; make it with --update-golden"
    assert text == path.read_text(encoding="utf-8"), f"{path} differs; see --update-golden"

"""What the user says of how memory that ran out is looked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class OomOptions:
    """`position_file` keeps how far logs were read; None for a reader that begins at their ends.

    `patterns_file` holds the user's own wordings. Globs name files that no container writes.
    """

    patterns_file: Path | None = None
    position_file: Path | None = None
    file_globs: tuple[str, ...] = ()
    journal_globs: tuple[str, ...] = ()

    @property
    def files_position_file(self) -> Path | None:
        """Where the reader of the user's files keeps its positions: beside the other's."""
        path = self.position_file
        return None if path is None else path.with_name(f"{path.stem}-files{path.suffix}")

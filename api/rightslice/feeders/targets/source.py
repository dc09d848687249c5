"""Where targets come from: flags, a file of groups, files and names that groups point to."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.targets.config import read_target_config
from rightslice.feeders.targets.files import TargetFiles
from rightslice.feeders.targets.names import TargetNames
from rightslice.feeders.targets.target import ScrapeTarget, TargetGroup

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """What is to be scraped now, and what is wrong with where that is told."""

    targets: tuple[ScrapeTarget, ...] = ()
    problems: tuple[str, ...] = ()


class Targets(Protocol):
    """Tells what to scrape, again and again."""

    def look(self, now_seconds: float, *, is_forced: bool = False) -> Found:
        """Give what is to be scraped now; `now_seconds` is of a clock that is never set."""
        ...


@dataclass(frozen=True, slots=True)
class FixedTargets:
    """Targets that never change."""

    targets: Sequence[ScrapeTarget]

    def look(self, now_seconds: float, *, is_forced: bool = False) -> Found:
        return Found(tuple(self.targets))


class TargetSource:
    """The targets of a file, which may change at any time, and those of flags, which do not.

    What is broken keeps what it told before; what is wrong is told once, and when it is mended.
    """

    def __init__(
        self,
        file: Path,
        flag_targets: Sequence[ScrapeTarget],
        interval_seconds: float,
        names: TargetNames | None = None,
    ) -> None:
        """Read the file; raises DocumentError, since at the start there is nothing to keep."""
        self._file = file
        self._flag_targets = tuple(flag_targets)
        self._interval_seconds = interval_seconds
        self._files = TargetFiles()
        self._names = names or TargetNames()
        self._told: frozenset[str] = frozenset()
        self._config_problem = ""
        self._config = read_target_config(file, interval_seconds)

    def look(self, now_seconds: float, *, is_forced: bool = False) -> Found:
        """Look at all files and names again; those that did not change cost a glance."""
        self._look_at_config(is_forced=is_forced)
        gathered = _Gathered()
        if self._config_problem:
            gathered.problems.append(self._config_problem)
        gathered.add(self._flag_targets)
        for group in self._config.groups:
            gathered.add(self._targets_of(group, now_seconds, gathered, is_forced=is_forced))
        self._forget_others()
        self._tell(gathered.problems)
        return Found(tuple(gathered.targets.values()), tuple(gathered.problems))

    def _look_at_config(self, *, is_forced: bool) -> None:
        is_stale = any(entry.is_stale() for entry in self._config.stamps)
        if not (is_stale or is_forced or self._config_problem):
            return
        try:
            self._config = read_target_config(self._file, self._interval_seconds)
            self._config_problem = ""
        except DocumentError as error:
            self._config_problem = str(error)

    def _targets_of(
        self, group: TargetGroup, now_seconds: float, gathered: "_Gathered", *, is_forced: bool
    ) -> Iterator[ScrapeTarget]:
        listed = list(group.listed)
        for pattern in group.file_patterns:
            found, problems = self._files.look(pattern, is_forced=is_forced)
            listed += found
            gathered.problems += problems
        for entry in listed:
            for address in entry.addresses:
                yield group.target(address, entry.labels)
        for query in group.name_queries:
            addresses, problem = self._names.look(query, now_seconds, is_forced=is_forced)
            gathered.problems += [problem] if problem else []
            for address in addresses:
                yield group.target(address, {})

    def _forget_others(self) -> None:
        groups = self._config.groups
        self._files.forget_others(p for group in groups for p in group.file_patterns)
        self._names.forget_others(q for group in groups for q in group.name_queries)

    def _tell(self, problems: Iterable[str]) -> None:
        now = frozenset(problems)
        for problem in sorted(now - self._told):
            log.warning("%s; the targets known before stay", problem)
        for problem in sorted(self._told - now):
            log.info("mended: %s", problem)
        self._told = now


@dataclass(slots=True)
class _Gathered:
    """Targets by URL: of two groups that list a page, the first has it."""

    targets: dict[str, ScrapeTarget] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, targets: Iterable[ScrapeTarget]) -> None:
        for target in targets:
            first = self.targets.setdefault(target.url, target)
            if first.group != target.group:
                self.problems.append(
                    f"target {target.url} is in the groups {first.group!r} and {target.group!r}; "
                    f"it is scraped for {first.group!r}, list it once"
                )

"""Running totals of a simulated card: what its levels add up to since the driver was loaded."""

from collections.abc import Mapping

from rightslice.exporter.simulate.load import Level


class Totals:
    """Totals by name, each level added up to where it was last asked for."""

    def __init__(self, levels: Mapping[str, Level], start_seconds: float) -> None:
        self._levels = levels
        self._reached: dict[str, tuple[float, float]] = {}
        self.restart(start_seconds)

    def restart(self, now_seconds: float) -> None:
        """Let every total begin at 0, as after a driver reload."""
        self._reached = dict.fromkeys(self._levels, (now_seconds, 0.0))

    def at(self, name: str, now_seconds: float) -> float | None:
        """Give a total; None for a level that this card does not have."""
        level = self._levels.get(name)
        if level is None:
            return None
        reached_seconds, total = self._reached[name]
        if now_seconds > reached_seconds:
            total += level.total(reached_seconds, now_seconds)
            self._reached[name] = (now_seconds, total)
        return total

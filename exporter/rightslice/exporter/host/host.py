"""The machine as collectors see it."""

from dataclasses import dataclass, field

from rightslice.exporter.host.nvml import NvmlCard, NvmlSession


@dataclass(slots=True)
class Host:
    """The only way to the machine; collectors read devices from here."""

    node: str
    nvml: NvmlSession = field(default_factory=NvmlSession)

    @property
    def gpus(self) -> tuple[NvmlCard, ...]:
        return self.nvml.cards

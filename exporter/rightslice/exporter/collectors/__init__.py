"""What the exporter measures: one file per collector, one line here."""

from importlib import import_module

from rightslice.exporter.collector import Collector

ENABLED = (
    "gpu_info",
    "gpu_memory",
    "gpu_use",
)


def load(name: str) -> Collector:
    """Import a collector by the name of its file."""
    collector: Collector = import_module(f"{__name__}.{name}").COLLECTOR
    return collector

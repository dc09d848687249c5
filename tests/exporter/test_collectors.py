"""The list of collectors, and what holds for each of them."""

from pathlib import Path

import pytest
from support.simulated import Simulate, simulated_card

from rightslice.contract.spec import Sample
from rightslice.exporter import collectors
from rightslice.exporter.collectors import ENABLED, load


def test_each_file_of_the_folder_is_enabled() -> None:
    folder = Path(collectors.__file__).parent
    files = {file.stem for file in folder.glob("*.py")} - {"__init__"}

    assert set(ENABLED) == files


def test_the_list_is_sorted_and_names_each_collector_once() -> None:
    assert list(ENABLED) == sorted(set(ENABLED))


def test_a_name_without_a_file_is_an_error() -> None:
    with pytest.raises(ModuleNotFoundError, match="gpu_magic"):
        load("gpu_magic")


@pytest.mark.parametrize("name", ENABLED)
def test_a_collector_reads_every_card(name: str, simulate: Simulate) -> None:
    node = simulate(simulated_card(1), simulated_card(2))
    node.open()

    assert tuple(load(name).devices(node.host)) == node.host.gpus


@pytest.mark.parametrize("name", ENABLED)
def test_a_collector_yields_what_it_declares_with_a_value_for_each_label(
    name: str, simulate: Simulate
) -> None:
    (gpu,) = simulate(simulated_card()).open()

    samples: list[Sample] = list(load(name).collect(gpu, 1.0))

    assert {sample.spec for sample in samples} <= set(load(name).specs)
    assert [len(sample.labels) for sample in samples] == [
        len(sample.spec.labels) for sample in samples
    ]

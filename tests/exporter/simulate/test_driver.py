"""The driver as a whole: there, away, changed; and what its coming back does to counters."""

import pynvml
import pytest
from support.simulated import constant, simulated_card

from rightslice.exporter.simulate.card import Ecc, Mig, MigInstance
from rightslice.exporter.simulate.timeline import Event

from .conftest import Play

RELOAD = (Event(40, driver="unloaded"), Event(70, driver="loaded"))


@pytest.mark.parametrize(
    ("state", "error"),
    [
        pytest.param("unloaded", pynvml.NVMLError_DriverNotLoaded, id="unloaded"),
        pytest.param("library_missing", pynvml.NVMLError_LibraryNotFound, id="library missing"),
        pytest.param("mismatched", pynvml.NVMLError_LibRmVersionMismatch, id="mismatched"),
        pytest.param("unknown_error", pynvml.NVMLError_Unknown, id="unknown error"),
    ],
)
def test_a_session_cannot_be_opened_while_the_driver_is_not_right(
    state: str, error: type[Exception], play: Play
) -> None:
    node = play(simulated_card(), events=(Event(0, driver=state), Event(30, driver="loaded")))

    with pytest.raises(error):
        pynvml.nvmlInit()
    node.clock.advance(30)
    pynvml.nvmlInit()

    assert pynvml.nvmlDeviceGetCount() == 1


def test_an_open_session_ends_with_the_driver_and_stays_ended(play: Play) -> None:
    node = play(simulated_card(), events=RELOAD)
    pynvml.nvmlInit()
    handle = node.handle()
    node.clock.advance(40)

    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetUUID(handle)
    node.clock.advance(30)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        pynvml.nvmlDeviceGetCount()
    pynvml.nvmlShutdown()
    pynvml.nvmlInit()

    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-0001"


def test_an_unknown_error_reaches_every_card_and_may_pass(play: Play) -> None:
    node = play(
        simulated_card(),
        events=(Event(10, driver="unknown_error"), Event(20, driver="loaded")),
    )
    handle = node.handle()
    node.clock.advance(10)

    with pytest.raises(pynvml.NVMLError_Unknown):
        pynvml.nvmlDeviceGetUUID(handle)
    node.clock.advance(10)

    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-0001"


def test_an_open_session_goes_on_while_its_library_file_is_gone(play: Play) -> None:
    node = play(simulated_card(), events=(Event(10, driver="library_missing"),))
    handle = node.handle()
    node.clock.advance(10)

    assert pynvml.nvmlDeviceGetUUID(handle) == "GPU-0001"


def test_energy_counts_from_the_loading_of_the_driver(play: Play) -> None:
    node = play(simulated_card(power_watts=constant(250)), events=RELOAD)
    handle = node.handle()
    energies = [pynvml.nvmlDeviceGetTotalEnergyConsumption(handle)]

    node.clock.advance(30)
    energies.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))
    node.clock.advance(50)
    pynvml.nvmlInit()
    energies.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(handle))

    # Millijoules; loaded at 70 s, asked at 80 s.
    assert energies == [0, 30 * 250_000, 10 * 250_000]


def test_memory_errors_since_loading_start_anew_and_those_of_a_life_stay(play: Play) -> None:
    node = play(
        simulated_card(ecc=Ecc(5, 1)),
        events=(*RELOAD, Event(90, 0, ecc=Ecc(7, 1))),
    )
    handle = node.handle()
    pynvml.nvmlInit()

    def errors() -> list[int]:
        return [
            pynvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter)
            for counter in (pynvml.NVML_VOLATILE_ECC, pynvml.NVML_AGGREGATE_ECC)
            for kind in (
                pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED,
                pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
            )
        ]

    at_first = errors()
    node.clock.advance(70)
    pynvml.nvmlInit()
    reloaded = errors()
    node.clock.advance(20)

    assert at_first == [5, 1, 5, 1]
    assert reloaded == [0, 0, 5, 1]
    assert errors() == [2, 0, 7, 1]


def test_mig_instances_do_not_outlive_the_driver(play: Play) -> None:
    mig = Mig(instances=(MigInstance("3g.20gb", 0),))
    node = play(simulated_card(mig=mig), events=RELOAD)
    handle = node.handle()
    slice_handle = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    node.clock.advance(70)
    pynvml.nvmlInit()

    assert pynvml.nvmlDeviceGetMigMode(handle) == [1, 1]
    with pytest.raises(pynvml.NVMLError_NotFound):
        pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        pynvml.nvmlDeviceGetUUID(slice_handle)

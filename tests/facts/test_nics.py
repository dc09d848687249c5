"""The table of counters of network cards: what must hold for whoever reads by it."""

from collections import Counter

import pytest

from rightslice.facts.data import read_facts
from rightslice.facts.nics import (
    ETHTOOL,
    EXTENDED,
    FULL_WIDTH_BITS,
    HARDWARE_FILE,
    PORT_FILE,
    SATURATE,
    SOURCES,
    WRAP,
    CounterRow,
    NicDriver,
    find_nic_driver,
    nic_drivers,
    nic_metrics,
    standard_nic_driver,
)

WRITTEN = read_facts("nic_counters")
DRIVERS = [pytest.param(driver, id=driver.id) for driver in nic_drivers()]


def modules() -> dict[str, str]:
    """Give the driver's id by each kernel module's name that is written."""
    return {
        module: driver_id
        for driver_id, driver in WRITTEN["drivers"].items()
        for module in driver["match"]
    }


def rows_of(driver: NicDriver, source: str) -> list[CounterRow]:
    return list(dict.fromkeys(driver.rows[source].values()))


@pytest.mark.parametrize(("module", "driver_id"), modules().items())
def test_each_module_finds_its_driver(module: str, driver_id: str) -> None:
    found = find_nic_driver(module)

    assert found is not None
    assert found.id == driver_id


def test_no_module_belongs_to_two_drivers() -> None:
    written = [each for driver in WRITTEN["drivers"].values() for each in driver["match"]]

    assert len(written) == len(set(written))


def test_a_part_of_a_module_has_its_counters() -> None:
    assert find_nic_driver("mlx5_core.sf") is find_nic_driver("mlx5_core")


@pytest.mark.parametrize("name", ["", "mlx5", "MLX5_CORE", "mlx5_core2", "virtio_net"])
def test_a_driver_that_is_not_known_is_not_guessed(name: str) -> None:
    assert find_nic_driver(name) is None


def test_an_unknown_driver_has_what_the_specification_names() -> None:
    standard = standard_nic_driver()

    assert {"port_rcv_data", "port_xmit_data", "link_downed"} <= set(standard.rows[PORT_FILE])
    assert not standard.rows[HARDWARE_FILE]
    assert not standard.rows[ETHTOOL]


@pytest.mark.parametrize("driver_id", WRITTEN["drivers"])
def test_each_written_row_is_there_under_each_of_its_names(driver_id: str) -> None:
    """Expand by hand, for a fault in the expansion loses rows without a word."""
    written = WRITTEN["drivers"][driver_id]
    driver = find_nic_driver(written["match"][0])
    assert driver is not None
    wanted: list[tuple[str, str, str]] = []
    for row in written["counters"]:
        for name in (row["name"], *row.get("aliases", ())):
            numbers: list[object] = [None]
            for word, values in WRITTEN["placeholders"].items():
                if f"{{{word}}}" in name:
                    numbers = list(values)
                    name = name.replace(f"{{{word}}}", "{}")
            wanted += [(row["source"], name.format(number), row["metric"]) for number in numbers]

    found = [
        (source, name, row.metric)
        for source in SOURCES
        for name, row in driver.rows[source].items()
    ]

    assert sorted(found) == sorted(wanted)


@pytest.mark.parametrize("driver", DRIVERS)
def test_the_rows_of_a_driver_are_sane(driver: NicDriver) -> None:
    for row in (row for source in SOURCES for row in rows_of(driver, source)):
        texts = (row.name, *row.labels.values(), row.metric)
        assert not any("{" in text or "}" in text for text in texts), row.name
        assert row.multiplier > 0, row.name
        assert 4 <= row.width_bits <= FULL_WIDTH_BITS, row.name
        assert row.overflow in (WRAP, SATURATE, EXTENDED), row.name
        assert row.help.endswith("."), row.name
        assert row.is_gauge == (not row.metric.endswith("_total")), row.name
        assert row.available is None or row.available in WRITTEN["availability"], row.name


@pytest.mark.parametrize("driver", DRIVERS)
def test_rows_for_the_same_series_are_added_or_chosen_from_but_not_both(driver: NicDriver) -> None:
    """Of ethtool's there is none: nothing would choose."""
    for source in SOURCES:
        for key, count in Counter(row.key for row in rows_of(driver, source)).items():
            same = [row for row in rows_of(driver, source) if row.key == key]
            preferences = {row.preference for row in same}
            assert count == 1 or source != ETHTOOL, key
            assert count == 1 or all(row.is_summed for row in same) or len(preferences) == count
            assert count == 1 or len({row.is_summed for row in same}) == 1


def test_what_is_told_of_ports_and_of_interfaces_are_other_metrics() -> None:
    sources: dict[str, set[bool]] = {}
    for driver in nic_drivers():
        for source in SOURCES:
            for row in rows_of(driver, source):
                sources.setdefault(row.metric, set()).add(source == ETHTOOL)

    assert [metric for metric, of_ethtool in sources.items() if len(of_ethtool) > 1] == []


def test_each_metric_has_the_same_labels_in_the_same_order_whoever_tells_it() -> None:
    names = {metric.name: metric.label_names for metric in nic_metrics()}
    wrong = [
        (driver.id, row.name)
        for driver in nic_drivers()
        for source in SOURCES
        for row in rows_of(driver, source)
        if tuple(row.labels) != names[row.metric]
    ]

    assert wrong == []


def test_each_metric_names_just_the_drivers_that_tell_it() -> None:
    for metric in nic_metrics():
        tell = {
            driver.id
            for driver in nic_drivers()
            for source in SOURCES
            if any(row.metric == metric.name for row in driver.rows[source].values())
        }
        assert set(metric.drivers) == tell, metric.name


def test_the_words_of_ports_count_four_bytes_each() -> None:
    words = {
        (driver.id, name): row.multiplier
        for driver in nic_drivers()
        for name, row in driver.rows[PORT_FILE].items()
        if "_data" in name
    }

    assert words
    assert set(words.values()) == {4}


def test_times_are_in_seconds() -> None:
    for driver in nic_drivers():
        for row in rows_of(driver, ETHTOOL):
            if row.metric.endswith("_seconds_total") and "duration" in row.name:
                assert row.multiplier == pytest.approx(1e-6), row.name


def test_resumes_and_totals_are_no_pauses_of_a_priority() -> None:
    """What would be counted twice has another metric each."""
    for driver in nic_drivers():
        for name, row in driver.rows[ETHTOOL].items():
            is_pause = row.metric.startswith("pfc_pause_frames_")
            assert not (is_pause and ("xon" in name and "xoff" not in name)), name
            assert not (is_pause and "priority" not in row.labels), name

"""Whose metrics are read: all there are, or those that were named."""

from pathlib import Path

import pytest

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.prometheus.sources import choose_sources, source_names

OWN = """
name: house
metrics:
  busy_ratio: [{metric: house_busy, highest: 1}]
labels:
  uuid: {names: [card]}
"""


def names(name: str, file: Path | None = None) -> tuple[bool, list[str]]:
    chosen = choose_sources(name, file)
    return chosen.has_ours, [mapping.name for mapping in chosen.mappings]


def test_all_there_are_is_ours_and_each_shipped_mapping_the_most_trusted_first() -> None:
    has_ours, found = names("auto")

    assert has_ours
    assert found[0] == "dcgm"
    assert sorted(["auto", "rightslice", *found]) == sorted(source_names())


def test_one_is_read_alone() -> None:
    assert names("rightslice") == (True, [])
    assert names("dcgm") == (False, ["dcgm"])


def test_a_mapping_of_ones_own_is_read_beside_the_source(tmp_path: Path) -> None:
    file = tmp_path / "house.yaml"
    file.write_text(OWN, encoding="utf-8")

    assert names("rightslice", file) == (True, ["house"])
    assert names("dcgm", file) == (False, ["dcgm", "house"])


def test_a_mapping_of_the_same_name_takes_the_shipped_ones_place(tmp_path: Path) -> None:
    file = tmp_path / "dcgm.yaml"
    file.write_text(OWN.replace("house", "dcgm", 1), encoding="utf-8")

    (mapping,) = choose_sources("dcgm", file).mappings

    assert [metric.name for metric in mapping.metrics] == ["house_busy"]


def test_a_bad_mapping_is_told_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "house.yaml"
    file.write_text("name: house\n", encoding="utf-8")

    with pytest.raises(DocumentError, match=r"house\.yaml"):
        choose_sources("auto", file)


def test_a_mapping_that_was_changed_is_another_source(tmp_path: Path) -> None:
    file = tmp_path / "house.yaml"
    file.write_text(OWN, encoding="utf-8")
    before = choose_sources("auto", file).name

    file.write_text(f"# mended\n{OWN}", encoding="utf-8")

    assert len({"auto", before, choose_sources("auto", file).name}) == 3

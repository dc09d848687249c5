"""The dashboards: the committed JSON is what the code builds, and every panel explains itself."""

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from rightslice.contract.spec import Unit
from rightslice.dashboards.__main__ import BOARDS, main
from rightslice.dashboards.board import rendered
from rightslice.dashboards.cards import HELD_RATIO, NO_WORK_RATIO
from rightslice.dashboards.panels import DATASOURCE, GRAFANA_RATE_UNIT, GRAFANA_UNIT
from rightslice.profile.profile import NO_COMPUTE_RATIO

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "dashboards/json"
COLUMNS = 24

Json = dict[str, Any]


def _board(name: str) -> Json:
    document: Json = json.loads(rendered(BOARDS[name]()))
    return document


def _panels() -> list[Any]:
    return [
        pytest.param(panel, id=f"{name}, {panel['title']}")
        for name in BOARDS
        for panel in _board(name)["panels"]
        if panel["type"] != "row"
    ]


by_board = pytest.mark.parametrize("name", BOARDS)
by_panel = pytest.mark.parametrize("panel", _panels())


def test_the_committed_json_is_what_the_code_builds() -> None:
    assert main(["--check", "--folder", str(COMMITTED)]) == 0
    assert {file.name for file in COMMITTED.iterdir()} == set(BOARDS)


def test_what_is_written_is_current_from_then_on(tmp_path: Path) -> None:
    assert main(["--check", "--folder", str(tmp_path)]) == 1
    assert main(["--folder", str(tmp_path)]) == 0
    assert main(["--check", "--folder", str(tmp_path)]) == 0


def test_check_names_a_stale_file_and_leaves_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--folder", str(tmp_path)])
    (tmp_path / "cards.json").write_text("{}", encoding="utf-8")

    assert main(["--check", "--folder", str(tmp_path)]) == 1
    assert "cards.json" in capsys.readouterr().err
    assert (tmp_path / "cards.json").read_text(encoding="utf-8") == "{}"


def test_a_missing_folder_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--folder", str(tmp_path / "none")]) == 2
    assert str(tmp_path / "none") in capsys.readouterr().err


@by_panel
def test_a_panel_says_what_it_shows_and_in_which_unit(panel: Json) -> None:
    assert panel["title"]
    assert panel["description"].endswith(".")
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["targets"]


@by_panel
def test_a_panel_reads_the_data_source_that_was_chosen(panel: Json) -> None:
    sources = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]

    assert all(source == DATASOURCE for source in sources)


@by_panel
def test_each_query_keeps_to_the_nodes_that_were_chosen(panel: Json) -> None:
    for target in panel["targets"]:
        selectors = target["expr"].count("{")
        assert target["expr"].count('{instance=~"$instance"') == selectors > 0


@by_board
def test_panels_lie_inside_the_grid_and_not_on_each_other(name: str) -> None:
    spots = [panel["gridPos"] for panel in _board(name)["panels"]]

    assert all(spot["x"] >= 0 and spot["x"] + spot["w"] <= COLUMNS for spot in spots)
    assert not [pair for pair in combinations(spots, 2) if _overlap(*pair)]


def _overlap(one: dict[str, int], other: dict[str, int]) -> bool:
    return (
        one["x"] < other["x"] + other["w"]
        and other["x"] < one["x"] + one["w"]
        and one["y"] < other["y"] + other["h"]
        and other["y"] < one["y"] + one["h"]
    )


@by_board
def test_a_board_has_the_variables_that_its_queries_use(name: str) -> None:
    board = _board(name)

    assert [variable["name"] for variable in board["templating"]["list"]] == [
        "datasource",
        "instance",
        "uuid",
    ]
    assert not board["editable"]
    assert board["uid"]


@by_board
def test_panels_have_numbers_of_their_own(name: str) -> None:
    ids = [panel["id"] for panel in _board(name)["panels"]]

    assert len(ids) == len(set(ids))


def test_grafana_has_a_name_for_each_unit_of_the_contract() -> None:
    assert set(GRAFANA_UNIT) == set(Unit)
    # What is a level already is never counted up.
    assert set(GRAFANA_RATE_UNIT) == set(Unit) - {Unit.RATIO, Unit.WATTS, Unit.CELSIUS}


def test_the_board_calls_idle_what_the_alert_and_the_usage_profile_call_idle() -> None:
    rules = yaml.safe_load((ROOT / "rules/rightslice.rules.yaml").read_text(encoding="utf-8"))
    (expr,) = (
        rule["expr"]
        for group in rules["groups"]
        for rule in group["rules"]
        if rule.get("alert") == "RightsliceCardHeldIdle"
    )

    assert NO_WORK_RATIO == NO_COMPUTE_RATIO
    assert expr.count(f"<= {NO_WORK_RATIO} * 24 * 3600") == 1
    assert expr.count(f">= {HELD_RATIO} * 24 * 3600") == 3

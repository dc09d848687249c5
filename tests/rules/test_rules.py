"""The alert rules: promtool accepts them, and each alert is complete, tested and explained."""

import re
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from rightslice.advice.policy import DEFAULT_POLICY
from rightslice.contract.histogram import RATIO_EDGES
from rightslice.profile.profile import NO_COMPUTE_RATIO, OVERSIZED_MEMORY_RATIO

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "rules"
RULE_FILES = sorted(RULES.glob("*.rules.yaml"))
TEST_FILES = sorted((RULES / "tests").glob("*.test.yaml"))


def _alerts() -> dict[str, dict[str, Any]]:
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in RULE_FILES]
    rules = [
        rule for document in documents for group in document["groups"] for rule in group["rules"]
    ]
    return {rule["alert"]: rule for rule in rules if "alert" in rule}


def _cases() -> list[dict[str, Any]]:
    """List what the rules' tests expect of alerts, each with the name of its test."""
    documents = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in TEST_FILES]
    return [
        {"test": test["name"], **case}
        for document in documents
        for test in document["tests"]
        for case in test.get("alert_rule_test", [])
    ]


ALERTS, CASES = _alerts(), _cases()


def _promtool(*arguments: str) -> None:
    done = subprocess.run(["promtool", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("file", RULE_FILES, ids=lambda file: file.name)
def test_promtool_accepts_the_rules(file: Path) -> None:
    _promtool("check", "rules", "--lint=all", "--lint-fatal", str(file))


@pytest.mark.parametrize("file", TEST_FILES, ids=lambda file: file.name)
def test_the_rules_pass_their_tests(file: Path) -> None:
    _promtool("test", "rules", str(file))


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_has_all_that_somebody_needs_at_night(alert: str) -> None:
    rule = ALERTS[alert]
    texts = rule["annotations"]

    assert rule["labels"]["severity"] in {"critical", "warning"}
    assert rule["for"]
    assert re.fullmatch(r"[^.{}]+\.", texts["summary"]), "one sentence without labels"
    assert "$value" in texts["description"]
    assert "$labels.instance" in texts["description"]
    assert texts["runbook_url"] == f"docs/runbooks/{alert}.md"
    assert (ROOT / texts["runbook_url"]).is_file()


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_seen_to_fire_with_its_whole_text(alert: str) -> None:
    fired = [case for case in CASES if case["alertname"] == alert and case["exp_alerts"]]

    assert fired
    assert all(
        set(expected["exp_annotations"]) == set(ALERTS[alert]["annotations"])
        for case in fired
        for expected in case["exp_alerts"]
    )


@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_is_seen_to_stay_quiet_without_data_and_otherwise(alert: str) -> None:
    quiet = [
        case["test"] for case in CASES if case["alertname"] == alert and not case["exp_alerts"]
    ]

    assert any(test.startswith("no data at all") for test in quiet)
    assert any(not test.startswith("no data at all") for test in quiet)


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/runbooks").glob("*.md")), ids=lambda p: p.stem
)
def test_a_runbook_belongs_to_an_alert_and_has_its_parts(page: Path) -> None:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)

    assert page.stem in ALERTS
    assert headings[0] == page.stem
    assert headings[1:] == [
        "What it means",
        "What it costs",
        "First checks",
        "Remedy",
        "When it is a false alarm",
    ]


def _numbers(alert: str, pattern: str) -> set[str]:
    found = re.findall(pattern, ALERTS[alert]["expr"])
    assert found, f"{alert}: nothing like {pattern}"
    return set(found)


@pytest.mark.parametrize(
    "alert", ["RightsliceCardHeldIdle", "RightsliceCardUnallocated", "RightsliceCardUnderused"]
)
def test_an_alert_calls_no_work_what_the_usage_profile_calls_no_work(alert: str) -> None:
    assert _numbers(alert, r"(?:<=|>) ([\d.]+) \* 24 \* 3600") == {str(NO_COMPUTE_RATIO)}


def test_an_underused_card_has_the_memory_of_an_oversized_one() -> None:
    found = _numbers("RightsliceCardUnderused", r"<= ([\d.]+) \* rightslice_gpu_memory_total_bytes")

    assert {float(number) for number in found} == {OVERSIZED_MEMORY_RATIO}


def test_an_underused_card_was_observed_for_as_long_as_advice_asks() -> None:
    found = _numbers("RightsliceCardUnderused", r">= ([\d.]+) \* 24 \* 3600")

    assert {float(number) for number in found} == {DEFAULT_POLICY.least_coverage_ratio}


def test_an_underused_card_is_decided_by_rank_at_an_edge_as_advice_does() -> None:
    (rank,) = _numbers("RightsliceCardUnderused", r"_count\[24h\]\) >= ([\d.]+)")
    (edge,) = _numbers("RightsliceCardUnderused", r'le="([\d.]+)"')

    assert float(rank) == DEFAULT_POLICY.compute.rank
    assert edge in map(repr, RATIO_EDGES)


def test_a_fifth_of_a_card_with_headroom_fits_a_quarter() -> None:
    (edge,) = _numbers("RightsliceCardUnderused", r'le="([\d.]+)"')

    assert Fraction(edge) == Fraction(1, 5)
    assert Fraction(edge) * DEFAULT_POLICY.compute.factor <= Fraction(1, 4)

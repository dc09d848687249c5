"""Targets that change while they are scraped: reloads, broken files, names, doubles."""

import logging
from pathlib import Path

import pytest
from support.waiting import wait_for

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.targets.names import TargetNames
from rightslice.feeders.targets.source import Found, TargetSource
from rightslice.feeders.targets.target import NameQuery, ScrapeTarget

FLAG_TARGET = ScrapeTarget("target", "http://flag:1/metrics", 15.0)
ONE = "scrape_configs:\n  - job_name: a\n    static_configs: [{targets: ['n1:1']}]\n"
TWO = ONE.replace("['n1:1']", "['n1:1', 'n2:1']")


def written(file: Path, text: str) -> Path:
    file.write_text(text, encoding="utf-8")
    return file


def urls(found: Found) -> list[str]:
    return [target.url for target in found.targets]


def test_flags_come_first_and_groups_follow_in_their_order(tmp_path: Path) -> None:
    source = TargetSource(written(tmp_path / "t.yml", TWO), [FLAG_TARGET], 15.0)

    assert urls(source.look(0.0)) == [
        "http://flag:1/metrics",
        "http://n1:1/metrics",
        "http://n2:1/metrics",
    ]


def test_a_broken_file_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DocumentError, match="cannot be read"):
        TargetSource(tmp_path / "none.yml", [], 15.0)


def test_a_changed_file_is_seen_at_the_next_look(tmp_path: Path) -> None:
    file = written(tmp_path / "t.yml", ONE)
    source = TargetSource(file, [], 15.0)
    before = source.look(0.0)
    written(file, TWO)

    after = source.look(1.0)

    assert urls(before) == ["http://n1:1/metrics"]
    assert urls(after) == ["http://n1:1/metrics", "http://n2:1/metrics"]
    assert after.targets[0] == before.targets[0]


def test_a_broken_file_keeps_its_targets_and_is_told_once_and_once_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = written(tmp_path / "t.yml", ONE)
    source = TargetSource(file, [], 15.0)
    written(file, TWO.replace("job_name", "job-name"))
    looks = [source.look(float(second)) for second in range(5)]
    written(file, TWO)
    mended = source.look(6.0)

    what = f"{file}, line 2: scrape_configs[0].job_name is missing; add it"
    assert [urls(found) for found in looks] == [["http://n1:1/metrics"]] * 5
    assert looks[0].problems == (what,)
    assert (urls(mended)[1:], mended.problems) == (["http://n2:1/metrics"], ())
    assert caplog.messages == [f"{what}; the targets known before stay", f"mended: {what}"]


def test_a_new_token_in_its_file_makes_a_new_target(tmp_path: Path) -> None:
    token = written(tmp_path / "token", "abc")
    text = ONE + "    authorization: {credentials_file: token}\n"
    source = TargetSource(written(tmp_path / "t.yml", text), [], 15.0)
    before, same = source.look(0.0).targets, source.look(1.0).targets
    written(token, "defg")

    after = source.look(2.0).targets

    assert before == same
    assert after[0].http.headers == {"Authorization": "Bearer defg"}
    assert after != before


def test_another_comment_in_the_file_changes_no_target(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("", encoding="utf-8")
    text = ONE + "    tls_config: {insecure_skip_verify: true}\n"
    file = written(tmp_path / "t.yml", text)
    source = TargetSource(file, [], 15.0)
    before = source.look(0.0).targets
    written(file, f"# of the night shift\n{text}")

    assert source.look(1.0).targets == before


def test_listed_files_add_and_remove_targets(tmp_path: Path) -> None:
    text = "scrape_configs: [{job_name: a, file_sd_configs: [{files: ['*.json']}]}]\n"
    source = TargetSource(written(tmp_path / "t.yml", text), [], 15.0)
    nothing = source.look(0.0)
    row = '{"targets": ["n1:1"], "labels": {"node": "n1", "__scheme__": "https"}}'
    listed = written(tmp_path / "a.json", f"[{row}]")
    one = source.look(1.0)
    listed.unlink()

    assert urls(nothing) == []
    assert nothing.problems == (f"{tmp_path / '*.json'}: there is no such file yet",)
    assert one.targets == (ScrapeTarget("a", "https://n1:1/metrics", 15.0, 10.0, {"node": "n1"}),)
    assert urls(source.look(2.0)) == []


def test_names_become_targets_once_they_are_looked_up(tmp_path: Path) -> None:
    text = (
        "scrape_configs:\n  - job_name: a\n    dns_sd_configs:\n"
        "      - {names: [fleet.test], type: A, port: 9400}\n"
    )
    names = TargetNames(lambda query: [f"10.0.0.1:{query.port}"])
    source = TargetSource(written(tmp_path / "t.yml", text), [], 15.0, names)

    wait_for(lambda: urls(source.look(0.0)) == ["http://10.0.0.1:9400/metrics"])


def test_a_page_in_two_groups_is_scraped_once_and_told(tmp_path: Path) -> None:
    text = ONE + ONE.replace("scrape_configs:\n", "").replace("job_name: a", "job_name: b")

    found = TargetSource(written(tmp_path / "t.yml", text), [], 15.0).look(0.0)

    assert [(target.group, target.url) for target in found.targets] == [
        ("a", "http://n1:1/metrics")
    ]
    assert found.problems == (
        "target http://n1:1/metrics is in the groups 'a' and 'b'; it is scraped for 'a', "
        "list it once",
    )


def test_a_forced_look_asks_names_before_their_time(tmp_path: Path) -> None:
    asked: list[str] = []

    def scripted(query: NameQuery) -> list[str]:
        asked.append(query.name)
        return []

    names = TargetNames(scripted)
    text = "scrape_configs: [{job_name: a, dns_sd_configs: [{names: [fleet.test]}]}]\n"
    source = TargetSource(written(tmp_path / "t.yml", text), [], 15.0, names)
    wait_for(lambda: source.look(0.0).problems)

    source.look(1.0, is_forced=True)

    wait_for(lambda: len(asked) == 2)

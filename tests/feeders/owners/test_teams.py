"""Rules for teams: the first that fits wins, and a mistake is told with its place."""

from pathlib import Path

import pytest

from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.owners.teams import TeamFacts, load_team_rules, team_of

DOCS = Path(__file__).parents[3] / "docs" / "teams.md"


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "teams.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def test_the_first_rule_that_fits_wins(tmp_path: Path) -> None:
    rules = load_team_rules(
        written(
            tmp_path,
            "rules:\n"
            "  - {team: search, match: {namespace: search-*}}\n"
            "  - {team: rest, match: {namespace: '*'}}\n",
        )
    )

    assert team_of(rules, TeamFacts(namespace="search-prod")) == "search"
    assert team_of(rules, TeamFacts(namespace="mail")) == "rest"
    assert team_of(rules, TeamFacts(user="ada")) == ""


def test_everything_that_a_rule_asks_for_must_be_so(tmp_path: Path) -> None:
    rules = load_team_rules(
        written(tmp_path, "rules: [{team: a, match: {account: [x, y], node: 'gpu-?'}}]")
    )

    assert team_of(rules, TeamFacts(account="y", node="gpu-1")) == "a"
    assert team_of(rules, TeamFacts(account="y", node="gpu-10")) == ""
    assert team_of(rules, TeamFacts(account="z", node="gpu-1")) == ""


def test_labels_are_written_as_in_kubernetes(tmp_path: Path) -> None:
    rules = load_team_rules(
        written(tmp_path, "rules: [{team: a, match: {labels: {app.kubernetes.io/part-of: web*}}}]")
    )

    assert team_of(rules, TeamFacts(labels={"app_kubernetes_io_part_of": "webshop"})) == "a"


def test_a_label_may_name_the_team_itself(tmp_path: Path) -> None:
    rules = load_team_rules(
        written(
            tmp_path,
            "rules:\n  - team_label: acme.com/team\n  - {team: rest, match: {namespace: '*'}}\n",
        )
    )

    assert team_of(rules, TeamFacts(namespace="a", labels={"acme_com_team": "nlp"})) == "nlp"
    assert team_of(rules, TeamFacts(namespace="a")) == "rest"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        pytest.param("{}", "line 1: rules is missing", id="no rules"),
        pytest.param("rules: []\nrule: 1", "line 2: rule is not a known key", id="unknown key"),
        pytest.param("rules:\n- match: {user: a}", "team or team_label", id="no team"),
        pytest.param(
            "rules:\n- {team: a, team_label: b}", "team or team_label", id="two kinds of team"
        ),
        pytest.param("rules:\n- team: a", "line 2: rules[0].match names nothing", id="no match"),
        pytest.param(
            "rules:\n- team: a\n  match: {namspace: a}", "line 3: rules[0].match", id="misspelt"
        ),
        pytest.param(
            "rules:\n- team: a\n  match: {user: ''}", "user must not be empty", id="empty name"
        ),
        pytest.param("rules: {a: b}", "rules must be a list", id="no list"),
    ],
)
def test_a_mistake_is_told_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(DocumentError) as caught:
        load_team_rules(written(tmp_path, text))

    assert complaint in str(caught.value)
    assert "teams.yaml" in str(caught.value)


def test_the_example_in_the_docs_does_what_is_said_there(tmp_path: Path) -> None:
    example = DOCS.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]

    rules = load_team_rules(written(tmp_path, example))

    assert team_of(rules, TeamFacts(labels={"acme_com_team": "nlp"}, namespace="x")) == "nlp"
    assert team_of(rules, TeamFacts(namespace="search-prod")) == "search"
    assert team_of(rules, TeamFacts(namespace="shared", owner="whisper-large")) == "speech"
    assert team_of(rules, TeamFacts(account="phys-astro")) == "astro"
    assert team_of(rules, TeamFacts(user="ada")) == "platform"
    assert team_of(rules, TeamFacts(cluster="lab", node="dgx-3", namespace="y")) == "research"
    assert team_of(rules, TeamFacts(namespace="unheard-of")) == ""

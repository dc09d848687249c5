"""Joins what our exporter and kube-state-metrics tell of a workload, and the rules for its team."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rightslice.feeders.owners.metrics import Thing
from rightslice.feeders.owners.pods import PodFacts
from rightslice.feeders.owners.teams import TeamFacts, TeamRule, plain_label, team_of
from rightslice.ledger.attributes import WorkloadAttributes

# Kinds whose namespace is the user they run as.
KINDS_OF_USERS = frozenset(("slurm_job", "process"))
# Our own labels of pods, for clusters where our exporter may not ask the kubelet for them.
CLASS_LABEL, OWNER_LABEL, TEAM_LABEL, PROTECTED_LABEL = (
    plain_label(f"rightslice.io/{name}") for name in ("class", "owner", "team", "protected")
)
OWNER_KIND_LABEL = "label"


def of_pod(
    told: WorkloadAttributes, pod: Thing, facts: PodFacts, owner: Thing | None
) -> WorkloadAttributes:
    """Give what kube-state-metrics tells of a workload, whose names and moment are `told`'s."""
    labels = facts.labels
    named = labels.get(OWNER_LABEL, "")
    kind, name = (OWNER_KIND_LABEL, named) if named else (owner[2:] if owner else ("", ""))
    return replace(
        told,
        cluster=pod.cluster,
        workload_class=labels.get(CLASS_LABEL, ""),
        owner_kind=kind,
        owner=name,
        team=labels.get(TEAM_LABEL, ""),
        image=facts.image(told.container),
        is_protected=labels.get(PROTECTED_LABEL, "").lower() == "true",
    )


def filled(ours: WorkloadAttributes, other: WorkloadAttributes) -> WorkloadAttributes:
    """Fill what ours leaves empty with another's. Kind and name of an owner belong together."""
    owner = ours if ours.owner else other
    return replace(
        ours,
        cluster=ours.cluster or other.cluster,
        workload_class=ours.workload_class or other.workload_class,
        owner_kind=owner.owner_kind,
        owner=owner.owner,
        team=ours.team or other.team,
        account=ours.account or other.account,
        image=ours.image or other.image,
        is_protected=ours.is_protected or other.is_protected,
    )


def with_team(
    told: WorkloadAttributes, rules: Sequence[TeamRule], labels: Mapping[str, str], node: str
) -> WorkloadAttributes:
    """Give a workload the team that the rules say; where none matches it keeps the one it has.

    Whoever writes rules means them: they also go over a Slurm account, which is a team by default.
    """
    is_users = told.kind in KINDS_OF_USERS
    facts = TeamFacts(
        cluster=told.cluster,
        node=node,
        namespace="" if is_users else told.namespace,
        owner_kind=told.owner_kind,
        owner=told.owner,
        account=told.account,
        user=told.namespace if is_users else "",
        labels=labels,
    )
    team = team_of(rules, facts)
    return replace(told, team=team) if team else told

"""What the labels of gauges tell: whose card it is, and what has to be learnt to read them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from rightslice.feeders.gauges.mapping import GaugeMapping, first_label

EXPORTED = "exported_"
INSTANCE = "instance"

Pod = tuple[str, str, str]
# What a Prometheus adds to tell its targets apart; empty where a page was scraped by ourselves.
TargetKey = tuple[str, str]
Teller = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """Where a series' values belong.

    `instance` is a part of the card, empty for the card. `pod` is None where nobody is named;
    `is_plain` says that it stood in labels which, beside exported_ ones, are the exporter's own.
    `teller` tells apart who read the card: two of them tell the same.
    """

    uuid: str
    node: str
    model: str
    instance: str
    profile: str
    instance_uuid: str
    compute_instance: str
    target: TargetKey
    teller: Teller
    pod: Pod | None
    is_plain: bool


def read_labels(mapping: GaugeMapping, labels: Mapping[str, str]) -> Told:
    """Read a series' labels; without a `uuid` they name no card."""
    card, part = mapping.card, mapping.instance
    target = labels.get("job", ""), labels.get(INSTANCE, "")
    profile = first_label(labels, part.profile)
    pod, is_plain = _pod(mapping, labels)
    return Told(
        uuid=_uuid(mapping, labels),
        node=_node(labels, card.node),
        model=first_label(labels, card.model),
        instance="" if profile in part.whole_card_profiles else first_label(labels, part.id),
        profile=profile,
        instance_uuid=first_label(labels, part.uuid),
        compute_instance=first_label(labels, part.compute_instance_id),
        target=target,
        teller=(*target, *(labels.get(name, "") for name in mapping.replica)),
        pod=pod,
        is_plain=is_plain,
    )


def _uuid(mapping: GaugeMapping, labels: Mapping[str, str]) -> str:
    card = mapping.card
    uuid = first_label(labels, card.uuid)
    if uuid and uuid not in card.uuid_blanks:
        return uuid if uuid.startswith(card.uuid_prefix) else card.uuid_prefix + uuid
    parts = [labels.get(name, "") for name in card.composed_of]
    return "/".join(parts) if parts and all(parts) else ""


def _node(labels: Mapping[str, str], names: Iterable[str]) -> str:
    """Name the node; of a target's address only the host counts."""
    for name in names:
        if labels.get(name):
            value = labels[name]
            return value.rpartition(":")[0] or value if name == INSTANCE else value
    return ""


def _pod(mapping: GaugeMapping, labels: Mapping[str, str]) -> tuple[Pod | None, bool]:
    """Name the workload, (namespace, pod, container), and say whether in plain labels.

    A scrape without honor_labels moves what the exporter says to exported_ labels.
    """
    workload = mapping.workload

    def told(names: Iterable[str]) -> str:
        names = tuple(names)
        exported = first_label(labels, (EXPORTED + name for name in names))
        return exported or first_label(labels, names)

    pod = first_label(labels, (EXPORTED + name for name in workload.pod))
    if pod:
        return (told(workload.namespace), pod, told(workload.container)), False
    pod, container = first_label(labels, workload.pod), told(workload.container)
    if not pod or container in workload.own_containers:
        return None, False
    return (told(workload.namespace), pod, container), True


@dataclass(slots=True)
class Instance:
    """What is known of an instance of a card."""

    profile: str = ""
    uuid: str = ""
    compute_instance: str = ""


@dataclass(slots=True)
class Learnt:
    """What the labels seen so far tell of how others are to be read.

    Moments are when a thing was first said: what stood before it was read without it.
    """

    # Targets that keep the workload in exported_ labels: their plain ones name the exporter's pod.
    exporting_targets: dict[TargetKey, float] = field(default_factory=dict)
    # Once a node has named a workload, a card of it without one is held by nobody.
    naming_nodes: dict[str, float] = field(default_factory=dict)
    tellers: dict[str, set[Teller]] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    instances: dict[tuple[str, str], Instance] = field(default_factory=dict)

    def learn(self, told: Told, since_seconds: float = 0.0) -> None:
        """Take in what a series says, from a moment on."""
        if not told.uuid:
            return
        self.tellers.setdefault(told.uuid, set()).add(told.teller)
        if told.model:
            self.models[told.uuid] = told.model
        if told.instance:
            self._learn_instance(told)
        if told.pod is None:
            return
        if not told.is_plain:
            _earliest(self.exporting_targets, told.target, since_seconds)
        elif since_seconds >= self.exporting_targets.get(told.target, float("inf")):
            return
        # What a node without a name tells says nothing of any other node.
        if told.node:
            _earliest(self.naming_nodes, told.node, since_seconds)

    def _learn_instance(self, told: Told) -> None:
        known = self.instances.setdefault((told.uuid, told.instance), Instance())
        known.profile = told.profile or known.profile
        # Several compute instances share the memory of one; the first one names it.
        if told.instance_uuid and (
            not known.uuid or told.compute_instance <= known.compute_instance
        ):
            known.uuid, known.compute_instance = told.instance_uuid, told.compute_instance

    def labels_of(self, uuid: str, instance: str) -> dict[str, str]:
        """Give what names an instance, as our own metric of instances spells it."""
        known = self.instances.get((uuid, instance), Instance())
        return {
            "gpu_instance_id": instance,
            "profile": known.profile,
            "mig_uuid": known.uuid,
            "compute_instance_id": known.compute_instance,
        }

    def is_told_often(self, uuid: str) -> bool:
        """Tell whether several read this card."""
        return len(self.tellers.get(uuid, ())) > 1

    def forget(self, uuid: str) -> None:
        """Drop what is known of a card that has left."""
        self.tellers.pop(uuid, None)
        self.models.pop(uuid, None)
        for key in [key for key in self.instances if key[0] == uuid]:
            del self.instances[key]

    def state(self) -> dict[str, Any]:
        """Give what was learnt of targets and nodes, in a shape that JSON can hold."""
        return {
            "naming_nodes": sorted(self.naming_nodes),
            "exporting_targets": sorted(self.exporting_targets),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take up what `state` gave."""
        self.naming_nodes.update(dict.fromkeys(state["naming_nodes"], 0.0))
        self.exporting_targets.update(
            dict.fromkeys(((job, name) for job, name in state["exporting_targets"]), 0.0)
        )


def _earliest(moments: dict[Any, float], key: Any, since_seconds: float) -> None:
    moments[key] = min(moments.get(key, since_seconds), since_seconds)

"""What kube-state-metrics tells of pods, their owners and replicas: its metrics and their labels.

Sources: kubernetes/kube-state-metrics, docs/metrics/workload/ (pod, deployment, replicaset,
statefulset, daemonset, job, replicationcontroller, horizontalpodautoscaler) and internal/store
(label values).
"""

from collections.abc import Mapping
from typing import NamedTuple

from rightslice.feeders.gauges.labels import EXPORTED

SOURCE_KUBE = "kube_state_metrics"
# What a workload in a pod is called, whoever tells of it.
KIND_POD = "pod"
POD, JOB, REPLICA_SET, DEPLOYMENT = "Pod", "Job", "ReplicaSet", "Deployment"

# Each tells who owns an object, which a label names.
OWNER_METRICS: Mapping[str, tuple[str, str]] = {
    "kube_pod_owner": (POD, "pod"),
    "kube_replicaset_owner": (REPLICA_SET, "replicaset"),
    "kube_job_owner": (JOB, "job_name"),
    # From 2.17 on: a Deployment that an InferenceService or the like made.
    "kube_deployment_owner": (DEPLOYMENT, "deployment"),
    "kube_replicationcontroller_owner": ("ReplicationController", "replicationcontroller"),
}
# Each tells how many replicas an object is to have. Statefulsets are told without "spec".
REPLICA_METRICS: Mapping[str, tuple[str, str]] = {
    "kube_deployment_spec_replicas": (DEPLOYMENT, "deployment"),
    "kube_statefulset_replicas": ("StatefulSet", "statefulset"),
    "kube_replicaset_spec_replicas": (REPLICA_SET, "replicaset"),
    "kube_replicationcontroller_spec_replicas": ("ReplicationController", "replicationcontroller"),
    "kube_daemonset_status_desired_number_scheduled": ("DaemonSet", "daemonset"),
}
POD_INFO, POD_LABELS, CONTAINER_INFO = (
    "kube_pod_info",
    "kube_pod_labels",
    "kube_pod_container_info",
)
AUTOSCALER_INFO = "kube_horizontalpodautoscaler_info"
POD_METRICS = (POD_INFO, POD_LABELS, CONTAINER_INFO, "kube_pod_owner")
LINK_METRICS = (*(name for name in OWNER_METRICS if name not in POD_METRICS), AUTOSCALER_INFO)
KUBE_NAMES = frozenset((*LINK_METRICS, *REPLICA_METRICS, *POD_METRICS))
# Owners of which only a label of their pods tells, by that label's plain name.
KINDS_BY_LABEL: Mapping[str, str] = {
    "serving_kserve_io_inferenceservice": "InferenceService",
    "leaderworkerset_sigs_k8s_io_name": "LeaderWorkerSet",
}

LABEL_PREFIX = "label_"
# What older versions write for an object without an owner; newer ones leave the label empty.
NOBODY = ("", "<none>")
DIGEST = "sha256:"


class Thing(NamedTuple):
    """An object of a cluster, such as a Pod or a Deployment."""

    cluster: str
    namespace: str
    kind: str
    name: str


def told(labels: Mapping[str, str], name: str) -> str:
    """Give a label as kube-state-metrics wrote it; empty for none.

    A scrape without honor_labels moves it to an exported_ label, where the plain one is the
    exporter's own.
    """
    return labels.get(EXPORTED + name) or labels.get(name, "")


def thing_of(labels: Mapping[str, str], kind: str, label: str, cluster: str) -> Thing | None:
    """Name the object that a series is of; None where a label is missing."""
    namespace, name = told(labels, "namespace"), told(labels, label)
    return Thing(cluster, namespace, kind, name) if namespace and name else None


def owner_of(labels: Mapping[str, str], thing: Thing) -> Thing | None:
    """Name the owner that a series tells; None for an object without one."""
    kind, name = labels.get("owner_kind", ""), labels.get("owner_name", "")
    if kind in NOBODY or name in NOBODY:
        return None
    return Thing(thing.cluster, thing.namespace, kind, name)


def autoscaled_thing(labels: Mapping[str, str], cluster: str) -> Thing | None:
    """Name the object whose replicas an autoscaler sets."""
    return thing_of(labels, labels.get("scaletargetref_kind", ""), "scaletargetref_name", cluster)


def is_controller(labels: Mapping[str, str]) -> bool:
    """Tell the owner that manages an object from others that only keep it from being deleted."""
    return labels.get("owner_is_controller") == "true"


def image_of(labels: Mapping[str, str]) -> str:
    """Give a container's image: its digest, or what else names it; empty while it is not pulled."""
    image_id = labels.get("image_id", "")
    place = image_id.rfind(DIGEST)
    if place >= 0:
        return image_id[place:]
    return image_id


def pod_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """Give a pod's own labels, by the names that kube-state-metrics made of theirs."""
    return {
        name.removeprefix(LABEL_PREFIX): value
        for name, value in labels.items()
        if name.startswith(LABEL_PREFIX)
    }

"""Pages in the shape in which kube-state-metrics writes them."""

from collections.abc import Iterable


def line(name: str, value: float = 1, /, **labels: str) -> str:
    told = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{told}}} {value:g}"


def owner(kind: str = "", name: str = "") -> dict[str, str]:
    is_controller = "true" if kind else ""
    return {"owner_kind": kind, "owner_name": name, "owner_is_controller": is_controller}


def pod(
    name: str,
    owned: dict[str, str],
    *,
    namespace: str = "chat",
    container: str = "vllm",
    image_id: str = "docker.io/vllm/vllm-openai@sha256:aaa",
    node: str = "gpu-1",
    **labels: str,
) -> list[str]:
    named = {"namespace": namespace, "pod": name, "uid": f"uid-of-{name}"}
    told = {f"label_{key}": value for key, value in labels.items()}
    image = {"container": container, "image_spec": "vllm/vllm-openai:latest", "image_id": image_id}
    return [
        line("kube_pod_info", **named, node=node, host_network="false"),
        line("kube_pod_owner", **named, **owned),
        line("kube_pod_labels", **named, **told),
        line("kube_pod_container_info", **named, **image),
    ]


def deployment(name: str, replicas: int, namespace: str = "chat") -> list[str]:
    named = {"namespace": namespace, "deployment": name}
    return [
        line("kube_deployment_owner", **named, **owner()),
        line("kube_deployment_spec_replicas", replicas, **named),
    ]


def replica_set(
    name: str, replicas: int, owned: dict[str, str], namespace: str = "chat"
) -> list[str]:
    named = {"namespace": namespace, "replicaset": name}
    return [
        line("kube_replicaset_owner", **named, **owned),
        line("kube_replicaset_spec_replicas", replicas, **named),
    ]


def job(name: str, owned: dict[str, str], namespace: str = "chat") -> list[str]:
    return [line("kube_job_owner", namespace=namespace, job_name=name, **owned)]


def autoscaler(kind: str, name: str, namespace: str = "chat") -> list[str]:
    target = {
        "scaletargetref_api_version": "apps/v1",
        "scaletargetref_kind": kind,
        "scaletargetref_name": name,
    }
    named = {"namespace": namespace, "horizontalpodautoscaler": f"hpa-{name}"}
    return [line("kube_horizontalpodautoscaler_info", **named, **target)]


def served(replicas: int, **pod_labels: str) -> list[str]:
    """Give a Deployment `chat` with the ReplicaSet and the pod below it."""
    return [
        *deployment("chat", replicas),
        *replica_set("chat-7f9", replicas, owner("Deployment", "chat")),
        *pod("chat-7f9-x1", owner("ReplicaSet", "chat-7f9"), **pod_labels),
    ]


def page(*parts: Iterable[str]) -> str:
    return "\n".join(text for part in parts for text in part) + "\n"

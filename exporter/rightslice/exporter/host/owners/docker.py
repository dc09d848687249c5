"""Names and labels of Docker's containers, from the files that its daemon keeps of them."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rightslice.exporter.host.owners.label_text import label_text, name_text
from rightslice.exporter.host.owners.small_files import read_start

CONFIG_BYTES = 1024 * 1024
MOST_REMEMBERED = 4096
# An id that is no container's, such as another runtime's, is not looked for every second.
UNKNOWN_SECONDS = 60.0
# Other labels are nobody's business here, and may be large.
KUBERNETES = "io.kubernetes."  # names, which must be equal to the kubelet's
KEPT_PREFIXES = (KUBERNETES, "rightslice.io/")
PERMISSION_REMEDY = "run as root, or give CAP_DAC_READ_SEARCH"


@dataclass(frozen=True, slots=True)
class DockerContainer:
    """One container; without a name where Docker does not know the id.

    Under cri-dockerd its labels say which container of which pod it is.
    """

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    is_running: bool | None = None

    @property
    def is_known(self) -> bool:
        return bool(self.name)

    @property
    def pod(self) -> tuple[str, str, str]:
        """Give namespace, pod and container; empty texts for a container of no pod."""
        namespace = self.labels.get("io.kubernetes.pod.namespace", "")
        pod = self.labels.get("io.kubernetes.pod.name", "")
        container = self.labels.get("io.kubernetes.container.name", "")
        return (namespace, pod, container) if namespace and pod else ("", "", "")

    @property
    def pod_uid(self) -> str:
        return self.labels.get("io.kubernetes.pod.uid", "")


UNKNOWN = DockerContainer()


def parse_config(text: bytes) -> DockerContainer:
    """Read config.v2.json; UNKNOWN for broken or half-written text."""
    try:
        config: Any = json.loads(text)
    except (ValueError, RecursionError):
        return UNKNOWN
    name = _dig(config, "Name")
    labels = _dig(config, "Config", "Labels")
    is_running = _dig(config, "State", "Running")
    if not isinstance(name, str):
        return UNKNOWN
    kept = {
        key: name_text(value) if key.startswith(KUBERNETES) else label_text(value)
        for key, value in (labels.items() if isinstance(labels, dict) else ())
        if key.startswith(KEPT_PREFIXES) and isinstance(value, str)
    }
    name = name_text(name.removeprefix("/"))
    return DockerContainer(name, kept, is_running if isinstance(is_running, bool) else None)


def _dig(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


class DockerContainers:
    """The containers that were read. Only `read_wanted` reads the disk, in one thread.

    `folder` is /var/lib/docker/containers; a node without it has no Docker. `unavailable_reason`
    says in a sentence why it cannot be read, and what to do.
    """

    def __init__(self, folder: Path) -> None:
        self.unavailable_reason: str | None = None
        self._folder = folder
        self._containers: dict[str, tuple[DockerContainer, float]] = {}
        self._wanted: set[str] = set()

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing to read: no container, and no folder that is kept shut."""
        is_any_known = any(found.is_known for found, _ in self._containers.values())
        return not is_any_known and self.unavailable_reason is None

    def container(self, container_id: str) -> DockerContainer | None:
        """Give a container as it was when first read; None for one that was not looked for yet."""
        found, _ = self._containers.get(container_id, (None, 0.0))
        if found is None or not found.is_known:
            self._wanted.add(container_id)
        return found

    def read_wanted(self, now_seconds: float) -> None:
        """Read what was asked for and is not known."""
        wanted, self._wanted = self._wanted, set()
        if wanted:
            self.unavailable_reason = self._why_unavailable()
        for container_id in sorted(wanted):
            _, read_seconds = self._containers.get(container_id, (None, float("-inf")))
            if now_seconds - read_seconds >= UNKNOWN_SECONDS:
                self._keep(container_id, self._read(container_id), now_seconds)

    def _read(self, container_id: str) -> DockerContainer:
        text = read_start(self._folder / container_id / "config.v2.json", CONFIG_BYTES)
        return UNKNOWN if text is None else parse_config(text)

    def _keep(self, container_id: str, container: DockerContainer, now_seconds: float) -> None:
        self._containers.pop(container_id, None)  # so that the oldest stay in front
        while len(self._containers) >= MOST_REMEMBERED:
            del self._containers[next(iter(self._containers))]
        self._containers[container_id] = (container, now_seconds)

    def _why_unavailable(self) -> str | None:
        try:
            self._folder.stat()
        except PermissionError as error:
            return f"{self._folder} cannot be read ({error.strerror}): {PERMISSION_REMEDY}"
        except OSError:
            return None
        if os.access(self._folder, os.X_OK):
            return None
        return f"{self._folder} cannot be read (Permission denied): {PERMISSION_REMEDY}"

"""The node's kubelet: the last that it told, and how old that is."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rightslice.exporter.host.kubelet import errors
from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.host.kubelet.grants import Grants, grants_of
from rightslice.exporter.host.kubelet.limits import DEADLINE_SECONDS
from rightslice.exporter.host.part import NodePart

if TYPE_CHECKING:
    from rightslice.exporter.host.kubelet.client import PodResourcesClient
    from rightslice.exporter.host.kubelet.podresources_pb2 import AllocatableResourcesResponse

DEFAULT_SOCKET = Path("/var/lib/kubelet/pod-resources/kubelet.sock")
# Pods come and go in seconds; what was true a minute ago may be another pod's by now.
FRESH_SECONDS = 60.0
PACKAGE_REMEDY = "pip install 'rightslice[kubernetes]'"


@dataclass(frozen=True, slots=True)
class _Snapshot:
    grants: Grants
    read_seconds: float


class Kubelet(NodePart):
    """What the kubelet of this node granted. One thread refreshes; any may read.

    A node without the socket is no node of Kubernetes: nothing is asked, and nothing is loaded.
    """

    id = "kubelet"
    # A slow kubelet must hold up nobody else.
    lane = "kubelet"
    asks_driver = False

    def __init__(
        self,
        socket_path: Path = DEFAULT_SOCKET,
        *,
        deadline_seconds: float = DEADLINE_SECONDS,
        now_seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self.socket_path = socket_path
        self._deadline_seconds = deadline_seconds
        self.now_seconds = now_seconds
        # Whether anybody asks it: a node's owner may have switched that off.
        self.is_asked = False
        self._was_there = False
        self._client: PodResourcesClient | None = None
        self._allocatable: AllocatableResourcesResponse | None = None
        self._snapshot: _Snapshot | None = None

    def refresh(self, now_seconds: float) -> None:
        """Ask the kubelet; where it is silent, raise KubeletError and keep what it told before."""
        if not self.is_expected:
            return
        self.is_asked = True
        client = self._opened()
        started_seconds = self.now_seconds()
        answer = client.list(self._deadline_seconds)
        left_seconds = self._deadline_seconds - (self.now_seconds() - started_seconds)
        try:
            self._allocatable = client.allocatable(left_seconds)
        finally:  # who holds what is worth more than what there is: it changes
            self._snapshot = _Snapshot(grants_of(answer, self._allocatable), now_seconds)

    @property
    def grants(self) -> Grants | None:
        """What it told last, however long ago; None before it told anything."""
        snapshot = self._snapshot
        return None if snapshot is None else snapshot.grants

    def age_seconds(self, now_seconds: float) -> float | None:
        """Tell how old the last answer is; None before one."""
        snapshot = self._snapshot
        return None if snapshot is None else now_seconds - snapshot.read_seconds

    def is_fresh(self, now_seconds: float) -> bool:
        """Tell whether the last answer may still be taken for what is."""
        age_seconds = self.age_seconds(now_seconds)
        return age_seconds is not None and age_seconds <= FRESH_SECONDS

    @property
    def is_expected(self) -> bool:
        """Tell whether this node has a kubelet: its socket is there, or was."""
        if not self._was_there:
            try:
                os.stat(self.socket_path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            except OSError:  # there is something that we may not look at
                pass
            self._was_there = True
        return True

    def close(self) -> None:
        """Let go of the connection; the next refresh opens it again."""
        if self._client is not None:
            self._client.close()

    def _opened(self) -> "PodResourcesClient":
        """Give the client; the first time, load gRPC, which nodes without a kubelet go without."""
        if self._client is None:
            try:
                from rightslice.exporter.host.kubelet.client import PodResourcesClient
            except ImportError as error:
                text = f"the kubelet cannot be asked ({error}): {PACKAGE_REMEDY}"
                raise KubeletError(errors.MISSING_PACKAGE, text) from error
            self._client = PodResourcesClient(self.socket_path)
        return self._client

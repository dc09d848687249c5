"""Asks the kubelet over its Unix socket which containers hold which devices.

Nothing imports this module before there is a kubelet to ask: h2 and protobuf are an extra, and cost
memory.
"""

import errno
import time
from pathlib import Path
from typing import TypeVar, cast

from google.protobuf.message import DecodeError, Message

from rightslice.exporter.host.kubelet import errors
from rightslice.exporter.host.kubelet.errors import KubeletError
from rightslice.exporter.host.kubelet.grpc_answer import (
    AnswerError,
    AnswerTooLargeError,
    Code,
    StatusError,
)
from rightslice.exporter.host.kubelet.grpc_connection import GrpcConnection
from rightslice.exporter.host.kubelet.limits import DEADLINE_SECONDS, LARGEST_ANSWER_BYTES
from rightslice.exporter.host.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ListPodResourcesResponse,
)

M = TypeVar("M", bound=Message)

LIST = "/v1.PodResourcesLister/List"
ALLOCATABLE = "/v1.PodResourcesLister/GetAllocatableResources"

SOCKET_REMEDY = "mount the node's /var/lib/kubelet/pod-resources into the container"
REMEDIES = {
    errors.ABSENT: f"is not there: {SOCKET_REMEDY}, and see whether the kubelet runs",
    errors.PERMISSION: "may not be opened: run the exporter as root",
    errors.UNAVAILABLE: "is not answered: see whether the kubelet runs, and listens here",
    errors.TIMEOUT: "was not answered in time: the kubelet is overloaded, or hangs",
    errors.TOO_LARGE: "has too large an answer: report it to us",
    errors.MALFORMED: "gave what is no answer of a kubelet: see what else listens on it",
}
REASONS_BY_ERRNO = {
    errno.ENOENT: errors.ABSENT,
    errno.ENOTDIR: errors.ABSENT,
    errno.EACCES: errors.PERMISSION,
    errno.EPERM: errors.PERMISSION,
    errno.EAGAIN: errors.TIMEOUT,  # so many wait to be connected that it takes no more
}


class PodResourcesClient:
    """The kubelet's pod-resources API. Each call asks once, and raises KubeletError.

    The connection stays open between calls, and is made anew by the call after a failure. One
    thread may ask, one call at a time; any may close, which ends a call that waits.
    """

    def __init__(self, socket_path: Path) -> None:
        self._socket_path = socket_path
        self._connection: GrpcConnection | None = None

    def list(self, timeout_seconds: float = DEADLINE_SECONDS) -> ListPodResourcesResponse:
        """Ask for all pods and what was handed to them."""
        answer = self._ask(LIST, timeout_seconds)
        if answer is None:
            raise KubeletError(
                errors.UNSUPPORTED,
                f"{self._socket_path} does not know pod resources v1: it needs Kubernetes 1.20",
            )
        return self._parsed(ListPodResourcesResponse, answer)

    def allocatable(
        self, timeout_seconds: float = DEADLINE_SECONDS
    ) -> AllocatableResourcesResponse | None:
        """Ask for all devices that may be handed out; None where the kubelet does not tell that."""
        answer = self._ask(ALLOCATABLE, timeout_seconds)
        return None if answer is None else self._parsed(AllocatableResourcesResponse, answer)

    def close(self) -> None:
        """Let go of the connection; the next call opens it again."""
        connection = self._connection
        if connection is not None:
            connection.close()

    def _ask(self, method: str, timeout_seconds: float) -> bytearray | None:
        """Give the answer's bytes; None where the kubelet does not know the method."""
        end_seconds = time.monotonic() + timeout_seconds
        try:
            return self._opened(end_seconds).call(method, end_seconds)
        except StatusError as error:
            if _is_unknown_method(error):
                return None
            raise self._translated(error) from error
        except (OSError, AnswerTooLargeError, AnswerError) as error:
            raise self._failure(_reason_of(error), error) from error

    def _opened(self, end_seconds: float) -> GrpcConnection:
        if self._connection is None or not self._connection.is_usable(end_seconds):
            self.close()
            self._connection = GrpcConnection(self._socket_path, LARGEST_ANSWER_BYTES)
        return self._connection

    def _translated(self, error: StatusError) -> KubeletError:
        if error.code == Code.DEADLINE_EXCEEDED:
            return self._failure(errors.TIMEOUT, error)
        return KubeletError(errors.UNAVAILABLE, f"{self._socket_path} answered {error}")

    def _parsed(self, message: type[M], answer: bytearray) -> M:
        try:
            # Taken as it is: a copy would be as large again.
            return message.FromString(cast(bytes, answer))
        except DecodeError as error:
            raise self._failure(errors.MALFORMED, error) from error

    def _failure(self, reason: str, cause: Exception) -> KubeletError:
        details = cause.strerror if isinstance(cause, OSError) and cause.strerror else cause
        return KubeletError(reason, f"{self._socket_path} {REMEDIES[reason]} ({details})")


def _is_unknown_method(error: StatusError) -> bool:
    """Tell also a method that is switched off: GetAllocatableResources, in 1.21 and 1.22."""
    if error.code == Code.UNKNOWN:
        return error.details.endswith(" disabled")
    return error.code == Code.UNIMPLEMENTED


def _reason_of(error: OSError | AnswerTooLargeError | AnswerError) -> str:
    match error:
        case AnswerTooLargeError():
            return errors.TOO_LARGE
        case AnswerError():
            return errors.MALFORMED
        case TimeoutError():
            return errors.TIMEOUT
    return REASONS_BY_ERRNO.get(error.errno or 0, errors.UNAVAILABLE)

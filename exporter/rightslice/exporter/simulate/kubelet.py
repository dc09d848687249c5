"""A simulated kubelet: a real gRPC server on a Unix socket that answers as it is told."""

import socket
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from rightslice.exporter.host.kubelet.client import ALLOCATABLE, LIST
from rightslice.exporter.host.kubelet.podresources_pb2 import (
    AllocatableResourcesResponse,
    ClaimResource,
    ContainerDevices,
    ContainerResources,
    DynamicResource,
    ListPodResourcesResponse,
    PodResources,
)
from rightslice.exporter.simulate.quiet_grpc import grpc

FOREVER_SECONDS = threading.TIMEOUT_MAX
WORKER_COUNT = 4


@dataclass(frozen=True, slots=True)
class SimulatedClaim:
    """A device that a container has by a claim (DRA)."""

    device: str
    driver: str = "gpu.nvidia.com"
    pool: str = "node-a"
    name: str = "claim"


@dataclass(frozen=True, slots=True)
class SimulatedContainer:
    """A container, with its device ids by the resource's name."""

    name: str = "main"
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    claims: tuple[SimulatedClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulatedPod:
    """A pod as the kubelet lists it, running or finished."""

    name: str
    namespace: str = "default"
    containers: tuple[SimulatedContainer, ...] = (SimulatedContainer(),)


class SimulatedKubelet:
    """The kubelet's pod-resources API. May be told other answers at any time.

    `list_count` counts how often it was asked for all pods. Between start() and stop(), `with` does
    both.
    """

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path
        self.list_count = 0
        self._list_answer = b""
        self._allocatable_answer: bytes | None = b""
        self._delay_seconds = 0.0
        self._error: tuple[grpc.StatusCode, str] | None = None
        self._server: grpc.Server | None = None
        self._stopping = threading.Event()

    def set_pods(self, pods: Iterable[SimulatedPod]) -> None:
        self.set_list_bytes(list_answer(pods).SerializeToString())

    def set_list_bytes(self, answer: bytes) -> None:
        """Answer with these bytes, which need not be those of an answer."""
        self._list_answer = answer

    def set_allocatable(self, devices: Mapping[str, tuple[str, ...]] | None) -> None:
        """Tell what may be handed out, by resource; None plays a kubelet that has no such call."""
        answer = None if devices is None else allocatable_answer(devices).SerializeToString()
        self._allocatable_answer = answer

    def set_delay(self, seconds: float) -> None:
        """Answer late from now on; FOREVER_SECONDS for never."""
        self._delay_seconds = seconds

    def set_error(self, code: grpc.StatusCode | None, details: str = "simulated") -> None:
        """Answer each call with an error from now on; with None, no more."""
        self._error = None if code is None else (code, details)

    def start(self) -> None:
        """Listen, also where a dead kubelet left its socket."""
        self._stopping = threading.Event()
        server = grpc.server(
            ThreadPoolExecutor(WORKER_COUNT),
            # One client must not be refused because another one is slow to go.
            options=(("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1)),
        )
        server.add_generic_rpc_handlers((_Handler(self),))
        server.add_insecure_port(f"unix:{quote(str(self.socket_path.absolute()))}")
        server.start()
        self._server = server

    def stop(self, *, leave_socket: bool = False) -> None:
        """Stop at once, whatever goes on; with `leave_socket` as by SIGKILL."""
        self._stopping.set()
        server, self._server = self._server, None
        if server is not None:
            server.stop(grace=None).wait()
        self.socket_path.unlink(missing_ok=True)
        if leave_socket:
            with socket.socket(socket.AF_UNIX) as dead:
                dead.bind(str(self.socket_path))

    def __enter__(self) -> "SimulatedKubelet":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def answer_list(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        self.list_count += 1
        return self._answer(self._list_answer, context)

    def answer_allocatable(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        return self._answer(self._allocatable_answer, context)

    def _answer(self, answer: bytes | None, context: grpc.ServicerContext) -> bytes:
        if self._delay_seconds:
            self._stopping.wait(self._delay_seconds)
        if self._error is not None:
            context.set_code(self._error[0])
            context.set_details(self._error[1])
        elif answer is None:
            context.set_code(grpc.StatusCode.UNIMPLEMENTED)
        return answer or b""


class _Handler(grpc.GenericRpcHandler):
    """Finds who answers a method: without parsers, so that an answer may be any bytes."""

    def __init__(self, kubelet: SimulatedKubelet) -> None:
        self._methods = {LIST: kubelet.answer_list, ALLOCATABLE: kubelet.answer_allocatable}

    def service(self, call: grpc.HandlerCallDetails) -> Any:
        method = self._methods.get(call.method)
        return method and grpc.unary_unary_rpc_method_handler(method)


def list_answer(pods: Iterable[SimulatedPod]) -> ListPodResourcesResponse:
    """Build the answer to List."""
    return ListPodResourcesResponse(
        pod_resources=[
            PodResources(
                name=_raw(pod.name),
                namespace=_raw(pod.namespace),
                containers=[_container(container) for container in pod.containers],
            )
            for pod in pods
        ]
    )


def allocatable_answer(devices: Mapping[str, tuple[str, ...]]) -> AllocatableResourcesResponse:
    """Build the answer to GetAllocatableResources."""
    return AllocatableResourcesResponse(devices=_devices(devices))


def _container(container: SimulatedContainer) -> ContainerResources:
    return ContainerResources(
        name=_raw(container.name),
        devices=_devices(container.devices),
        dynamic_resources=[_claim(claim) for claim in container.claims],
    )


def _devices(devices: Mapping[str, tuple[str, ...]]) -> list[ContainerDevices]:
    """Give each id a row of its own, as the kubelet does."""
    return [
        ContainerDevices(resource_name=_raw(resource), device_ids=[_raw(text)])
        for resource, texts in devices.items()
        for text in texts
    ]


def _claim(claim: SimulatedClaim) -> DynamicResource:
    part = ClaimResource(
        driver_name=_raw(claim.driver),
        pool_name=_raw(claim.pool),
        device_name=_raw(claim.device),
    )
    return DynamicResource(claim_name=_raw(claim.name), claim_resources=[part])


def _raw(text: str) -> bytes:
    """Encode text; surrogates stand for bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")

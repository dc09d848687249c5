"""A node's procfs, cgroup tree, and the kubelet's and Docker's folders, as files below a folder."""

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

START_TICKS = 4_100
# The node runs since long before its processes were first seen.
UP_SECONDS = 864_000
KERNEL_VERSION = "6.12.117"
NO_CGROUP = "0::/\n"


@dataclass(frozen=True, slots=True)
class ProcTree:
    """Writes what a node shows of its processes. Begins empty: without folders, as without pods."""

    root: Path

    @property
    def procfs(self) -> Path:
        return self.root / "proc"

    @property
    def sysfs(self) -> Path:
        return self.root / "sys"

    @property
    def pods_folder(self) -> Path:
        return self.root / "var/log/pods"

    @property
    def containers_folder(self) -> Path:
        return self.root / "var/log/containers"

    @property
    def docker_folder(self) -> Path:
        return self.root / "var/lib/docker/containers"

    def start(
        self,
        process_id: int,
        cgroup: str = NO_CGROUP,
        *,
        command: str = "python3",
        user_id: int = 1000,
        state: str = "S",
        parent_id: int = 1,
        namespace_ids: Iterable[int] = (),
        start_ticks: int = START_TICKS,
        user_ticks: int = 0,
        system_ticks: int = 0,
        environment: Mapping[str, str] | None = None,
    ) -> Path:
        """Write a process, in the place of an older one with its id. Gives its folder.

        Without `environment` it has no such file, as where reading it is forbidden. `namespace_ids`
        are those it goes by from the node's PID namespace to its own.
        """
        folder = self.procfs / str(process_id)
        folder.mkdir(parents=True, exist_ok=True)
        ticks = f"{user_ticks} {system_ticks} 0 0 20 0 1 0 {start_ticks}"
        # The fields of proc_pid_stat(5) up to the start and one more.
        stat = (
            f"{process_id} ({command}) {state} {parent_id} 1 1 0 -1 4194304 9 0 0 0 {ticks} 8192\n"
        )
        (folder / "stat").write_text(stat)
        (folder / "comm").write_text(f"{command}\n")
        status = f"Name:\t{command}\nTgid:\t{process_id}\nUid:\t{user_id}\t0\t0\t0\nGid:\t9\t9\n"
        ids = "".join(f"\t{number}" for number in namespace_ids)
        (folder / "status").write_text(status + (f"NSpid:{ids}\n" if ids else ""))
        (folder / "cgroup").write_text(cgroup)
        if environment is not None:
            pairs = (f"{name}={value}\0" for name, value in environment.items())
            (folder / "environ").write_text("".join(pairs))
        return folder

    def add_system(self) -> None:
        """Write what procfs tells of the node, and that its process ids are the reader's own."""
        (self.procfs / "sys/kernel").mkdir(parents=True, exist_ok=True)
        (self.procfs / "sys/kernel/osrelease").write_text(f"{KERNEL_VERSION}\n")
        (self.procfs / "uptime").write_text(f"{UP_SECONDS}.00 {UP_SECONDS}.00\n")
        (self.procfs / "self").symlink_to(str(os.getpid()))

    def add_resources(
        self,
        process_id: int,
        open_files: Iterable[str] = (),
        devices: Iterable[str] = (),
        memlock_bytes: int | None = None,
    ) -> None:
        """Write what a process has open, which devices it sees, and how much it may lock.

        `memlock_bytes` is None for one that may lock all it likes.
        """
        folder = self.procfs / str(process_id)
        (folder / "fd").mkdir()
        for number, path in enumerate(("/dev/null", *open_files)):
            (folder / "fd" / str(number)).symlink_to(path)
        (folder / "root/dev").mkdir(parents=True)
        for path in devices:
            device = folder / "root" / path.lstrip("/")
            device.parent.mkdir(exist_ok=True)
            device.touch()
        limit = "unlimited" if memlock_bytes is None else str(memlock_bytes)
        (folder / "limits").write_text(
            "Limit                     Soft Limit           Hard Limit           Units     \n"
            f"Max locked memory         {limit:<20} {limit:<20} bytes     \n"
        )

    def end(self, process_id: int) -> None:
        shutil.rmtree(self.procfs / str(process_id))

    def add_pod(
        self,
        namespace: str,
        name: str,
        uid: str,
        containers: Mapping[str, str] | None = None,
    ) -> None:
        """Write a pod's log folder, and for its containers, ids by name, folders and links.

        A container with an empty id has no link yet.
        """
        pod = self.pods_folder / f"{namespace}_{name}_{uid}"
        pod.mkdir(parents=True, exist_ok=True)
        self.containers_folder.mkdir(parents=True, exist_ok=True)
        for container, container_id in (containers or {}).items():
            (pod / container).mkdir(exist_ok=True)
            if container_id:
                link = self.containers_folder / f"{name}_{namespace}_{container}-{container_id}.log"
                link.symlink_to(pod / container / "0.log")

    def remove_pod(self, namespace: str, name: str, uid: str) -> None:
        shutil.rmtree(self.pods_folder / f"{namespace}_{name}_{uid}")
        for link in self.containers_folder.glob(f"{name}_{namespace}_*.log"):
            link.unlink()

    def add_docker(
        self, container_id: str, name: str, labels: Mapping[str, str] | None = None
    ) -> Path:
        """Write what Docker's daemon keeps of a container. Gives the file."""
        file = self.docker_folder / container_id / "config.v2.json"
        file.parent.mkdir(parents=True, exist_ok=True)
        config = {
            "ID": container_id,
            "Name": f"/{name}",
            "State": {"Running": True},
            "Config": {"Image": "pytorch", "Labels": labels},
        }
        file.write_text(json.dumps(config))
        return file

    def remove_cgroup(self, path: str) -> None:
        """Take away a folder below sys/fs/cgroup with all in it; an absent one is no error."""
        shutil.rmtree(self.sysfs / "fs/cgroup" / path.lstrip("/"), ignore_errors=True)

    def add_cgroup(
        self, path: str, process_ids: Iterable[int] = (), files: Mapping[str, str] | None = None
    ) -> Path:
        """Write a folder below sys/fs/cgroup, with the processes in it and other files."""
        folder = self.sysfs / "fs/cgroup" / path.lstrip("/")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "cgroup.procs").write_text("".join(f"{number}\n" for number in process_ids))
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        return folder

"""Places of processes, in the layouts of kubelets, container runtimes and Slurm."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.cgroup_path import CgroupPlace, parse_cgroups, parse_path

UID = "0b1f6c3e-93a7-4d1c-8a55-2f7d0c9e4b61"
UID_ = UID.replace("-", "_")
OUTER_UID = "7d4e11aa-05b2-4c0f-9e3d-6a1b8c2f5d90"
STATIC_UID = "9c2f7ab04e5d61388fd0a1b2c3d4e5f6"
ID = "c0ffee" + "0123456789abcdef" * 3 + "0123456789"
OTHER_ID = "de" * 32


def pod(qos: str, runtime: str = "", uid: str = UID, container_id: str = ID) -> CgroupPlace:
    return CgroupPlace("pod", uid, qos, runtime, container_id)


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param(f"/kubepods/burstable/pod{UID}/{ID}", pod("burstable"), id="cgroupfs"),
        pytest.param(f"/kubepods/pod{UID}/{ID}", pod("guaranteed"), id="cgroupfs, guaranteed"),
        pytest.param(
            f"/kubepods/besteffort/pod{STATIC_UID}/{ID}",
            pod("besteffort", uid=STATIC_UID),
            id="cgroupfs, static pod",
        ),
        pytest.param(
            f"/kubepods/besteffort/pod{UID}/crio-{ID}",
            pod("besteffort", "crio"),
            id="cgroupfs, CRI-O",
        ),
        pytest.param(
            "/kubepods.slice/kubepods-burstable.slice/"
            f"kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
            pod("burstable", "containerd"),
            id="systemd, containerd",
        ),
        pytest.param(
            f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-{ID}.scope",
            pod("guaranteed", "crio"),
            id="systemd, CRI-O, guaranteed",
        ),
        pytest.param(
            "/kubepods.slice/kubepods-besteffort.slice/"
            f"kubepods-besteffort-pod{UID_}.slice/docker-{ID}.scope",
            pod("besteffort", "docker"),
            id="systemd, cri-dockerd",
        ),
        pytest.param(
            f"/kubepods.slice/kubepods-pod{STATIC_UID}.slice/docker-{ID}.scope",
            pod("guaranteed", "docker", uid=STATIC_UID),
            id="systemd, static pod",
        ),
        pytest.param(
            "/system.slice/containerd.service/"
            f"kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}",
            pod("burstable", "containerd"),
            id="containerd that does not know systemd",
        ),
        pytest.param(
            f"/kubepods-besteffort-pod{STATIC_UID}.slice:cri-containerd:{ID}",
            pod("besteffort", "containerd", uid=STATIC_UID),
            id="the same, static pod",
        ),
        pytest.param(
            f"/kubelet/kubepods/burstable/pod{UID}/{ID}", pod("burstable"), id="root of its own"
        ),
        pytest.param(
            "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
            f"kubelet-kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
            pod("burstable", "containerd"),
            id="slice of its own",
        ),
        pytest.param(
            f"/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-pod{UID_}.slice"
            f"/cri-containerd-{ID}.scope",
            pod("guaranteed", "containerd"),
            id="slice of its own, guaranteed",
        ),
        pytest.param(
            f"/docker/{OTHER_ID}/kubelet/kubepods/besteffort/pod{UID}/{ID}",
            pod("besteffort"),
            id="kind in Docker",
        ),
        pytest.param(
            f"/system.slice/docker-{OTHER_ID}.scope/kubelet.slice/kubelet-kubepods.slice/"
            f"kubelet-kubepods-pod{UID_}.slice/cri-containerd-{ID}.scope",
            pod("guaranteed", "containerd"),
            id="kind in Docker, systemd",
        ),
        pytest.param(
            f"/kubepods/burstable/pod{OUTER_UID}/{OTHER_ID}/docker/{OTHER_ID}"
            f"/kubepods/besteffort/pod{UID}/{ID}",
            pod("besteffort"),
            id="pod in a pod",
        ),
        pytest.param(
            f"/lxc.payload.node-1/kubepods/burstable/pod{UID}/{ID}", pod("burstable"), id="in LXC"
        ),
        pytest.param(
            f"/kubepods/burstable/pod{UID}/{ID}/docker/{OTHER_ID}",
            pod("burstable"),
            id="Docker in a pod: the pod's container",
        ),
        pytest.param(
            f"/../../kubepods-burstable-pod{UID_}.slice/cri-containerd-{ID}.scope",
            pod("burstable", "containerd"),
            id="neighbour in a cgroup namespace",
        ),
        pytest.param(
            f"/../../pod{UID}/{ID}", pod(""), id="neighbour in a cgroup namespace, cgroupfs"
        ),
        pytest.param(f"/kubepods/pod{UID}", pod("guaranteed", container_id=""), id="pod alone"),
        pytest.param(
            f"/kubepods.slice/kubepods-pod{UID_}.slice/crio-conmon-{ID}.scope",
            pod("guaranteed", container_id=""),
            id="the monitor of a container",
        ),
        pytest.param(
            f"/docker/{ID}", CgroupPlace("container", "", "", "docker", ID), id="Docker, cgroupfs"
        ),
        pytest.param(
            f"/system.slice/docker-{ID}.scope",
            CgroupPlace("container", "", "", "docker", ID),
            id="Docker, systemd",
        ),
        pytest.param(
            f"/../docker-{ID}.scope",
            CgroupPlace("container", "", "", "docker", ID),
            id="Docker, neighbour in a cgroup namespace",
        ),
        pytest.param(
            f"/docker/{ID}/docker/{OTHER_ID}",
            CgroupPlace("container", "", "", "docker", ID),
            id="Docker in Docker: what the node's own knows",
        ),
        pytest.param(
            f"/machine.slice/libpod-{ID}.scope/container",
            CgroupPlace("container", "", "", "podman", ID),
            id="podman",
        ),
        pytest.param(
            f"/machine.slice/libpod-conmon-{ID}.scope", CgroupPlace(), id="podman's monitor"
        ),
        pytest.param(
            f"/k8s.io/{ID}", CgroupPlace("container", "", "", "", ID), id="containerd, cgroupfs"
        ),
        pytest.param(
            f"/system.slice/nerdctl-{ID}.scope",
            CgroupPlace("container", "", "", "containerd", ID),
            id="nerdctl",
        ),
        pytest.param("/user.slice/user-1000.slice/session-3.scope", CgroupPlace(), id="a login"),
        pytest.param("/", CgroupPlace(), id="the root"),
        pytest.param(f"/kubepods/pod{UID}x/y", CgroupPlace(), id="no uid"),
        pytest.param(f"/docker/{ID[:-1]}", CgroupPlace(), id="an id that is cut"),
    ],
)
def test_a_path_tells_its_place(path: str, place: CgroupPlace) -> None:
    assert parse_path(path)[0] == place


@pytest.mark.parametrize(
    ("path", "place"),
    [
        pytest.param(
            "/slurm/uid_1000/job_123/step_0/task_0",
            CgroupPlace("slurm_job", slurm_job_id="123", slurm_step="0", slurm_user_id=1000),
            id="v1",
        ),
        pytest.param(
            "/slurm_gpu-7/uid_1000/job_123/step_batch",
            CgroupPlace("slurm_job", slurm_job_id="123", slurm_step="batch", slurm_user_id=1000),
            id="v1, several slurmd",
        ),
        pytest.param(
            "/slurm/uid_1000/job_123",
            CgroupPlace("slurm_job", slurm_job_id="123", slurm_user_id=1000),
            id="v1, without a step",
        ),
        pytest.param(
            "/system.slice/slurmstepd.scope/job_123/step_extern/user/task_special",
            CgroupPlace("slurm_job", slurm_job_id="123", slurm_step="extern"),
            id="v2",
        ),
        pytest.param(
            "/system.slice/gpu-7_slurmstepd.scope/job_124/step_0+1/user/task_2",
            CgroupPlace("slurm_job", slurm_job_id="124", slurm_step="0+1"),
            id="v2, several slurmd, part of a heterogeneous job",
        ),
        pytest.param(
            f"/system.slice/slurmstepd.scope/job_9/step_0/user/task_0/libpod-{ID}.scope",
            CgroupPlace("slurm_job", "", "", "podman", ID, "9", "0"),
            id="container in a job",
        ),
        pytest.param(
            f"/kubepods/burstable/pod{UID}/{ID}/system.slice/slurmstepd.scope/job_9/step_0",
            CgroupPlace("slurm_job", UID, "burstable", "", ID, "9", "0"),
            id="job of a slurmd in a pod",
        ),
        pytest.param(
            f"/slurm/uid_1000/job_9/step_0/task_0/kubepods/pod{UID}/{ID}",
            CgroupPlace("pod", UID, "guaranteed", "", ID, "9", "0", 1000),
            id="pod of a kubelet in a job",
        ),
        pytest.param("/system.slice/slurmd.service", CgroupPlace(), id="slurmd itself"),
        pytest.param("/system.slice/slurmstepd.scope/system", CgroupPlace(), id="its daemon"),
        pytest.param("/user.slice/job_12/step_0", CgroupPlace(), id="a job of somebody else"),
    ],
)
def test_a_path_tells_its_job(path: str, place: CgroupPlace) -> None:
    assert parse_path(path)[0] == place


@pytest.mark.parametrize(
    ("path", "own"),
    [
        (f"/kubepods/burstable/pod{UID}/{ID}/init/x", f"/kubepods/burstable/pod{UID}/{ID}"),
        (f"/a.slice:cri-containerd:{ID}/init", f"/a.slice:cri-containerd:{ID}"),
        (f"/kubepods.slice/kubepods-pod{UID_}.slice", f"/kubepods.slice/kubepods-pod{UID_}.slice"),
        (f"/x.slice/docker-{ID}.scope/a", f"/x.slice/docker-{ID}.scope"),
        ("/slurm/uid_1/job_2/step_0/task_3", "/slurm/uid_1/job_2/step_0"),
        ("/user.slice/session-3.scope", "/user.slice/session-3.scope"),
    ],
)
def test_the_folder_of_the_workload_is_cut_from_the_path(path: str, own: str) -> None:
    assert parse_path(path)[1] == own


def test_one_line_of_v2_is_read() -> None:
    path = f"/kubepods/pod{UID}/{ID}"

    assert parse_cgroups(f"0::{path}\n") == CgroupPlace(
        "pod", UID, "guaranteed", "", ID, paths={"": path}
    )


def test_of_many_lines_of_v1_the_one_that_tells_most_counts() -> None:
    step = "/slurm/uid_1000/job_123/step_0"
    text = (
        "12:rdma:/\n"
        "11:devices:/slurm/uid_1000/job_123/step_0/task_0\n"
        "10:cpu,cpuacct:/system.slice/slurmd.service\n"
        "9:memory:/slurm/uid_1000/job_123\n"
        "8:freezer:/slurm/uid_1000/job_123/step_0\n"
        "1:name=systemd:/system.slice/slurmd.service\n"
        "0::/system.slice/slurmd.service\n"
    )

    place = parse_cgroups(text)

    assert (place.slurm_job_id, place.slurm_step, place.slurm_user_id) == ("123", "0", 1000)
    # The time of slurmd's own folder is not the job's.
    assert place.paths == {"devices": step, "freezer": step}


def test_controllers_that_share_a_folder_have_its_path_each() -> None:
    place = parse_cgroups(f"3:cpu,cpuacct:/docker/{ID}\n1:name=systemd:/docker/{ID}\n0::/\n")

    assert place.paths == dict.fromkeys(("cpu", "cpuacct", "name=systemd"), f"/docker/{ID}")


def test_a_path_may_hold_colons() -> None:
    path = f"/kubepods-burstable-pod{UID_}.slice:cri-containerd:{ID}"

    assert parse_cgroups(f"0::{path}\n").paths == {"": path}


def test_a_cgroup_that_was_removed_still_tells_its_place() -> None:
    assert parse_cgroups(f"0::/docker/{ID} (deleted)\n").paths == {"": f"/docker/{ID}"}


@pytest.mark.parametrize("text", ["", "\n", "0", "0:", "0::", "0::relative", "x:y:z", "\0:\0:/\0"])
def test_other_text_is_no_place(text: str) -> None:
    assert parse_cgroups(text).identity == ("", "", "", "")


WORDS = (
    "/ : - .. 0:: pod kubepods .slice burstable docker .scope slurm slurmstepd.scope uid_1 job_1"
)
PARTS = st.sampled_from((*WORDS.split(), "step_0", UID, UID_, ID, "\n", " (deleted)"))


@given(st.text() | st.lists(PARTS | st.text(max_size=3), max_size=30).map("".join))
def test_no_text_breaks_the_parser(text: str) -> None:
    place = parse_cgroups(text)

    assert place.kind in ("pod", "slurm_job", "container", "process")
    assert place.container_id == "" or re.fullmatch(r"[0-9a-f]{64}", place.container_id)


def test_long_hostile_text_takes_no_long_time() -> None:
    for part in ("/slurm_", "/pod", "a-", "/job_1", ":cri-containerd:", "/uid_1", "_"):
        parse_cgroups("0::/" + part * 20_000)


@pytest.mark.shared
def test_captured_paths_give_pod_class_and_container(shared: Path) -> None:
    lines = (shared / "cases/cgroup-paths-to-pod-uid.txt").read_text().splitlines()

    places = [parse_cgroups(line) for line in lines]

    assert [(place.pod_uid, place.qos, place.runtime) for place in places] == [
        ("34c04d5a-a59c-384b-7cf7-5491ccd2d2fb", "burstable", ""),
        ("c51cf691-0e30-f0e3-820d-2ef42f1d4258", "guaranteed", ""),
        ("bd0d3407-3cbd-a6c9-a86f-b92a263b4dee", "burstable", "docker"),
        ("da750f3c-1014-1b07-8d3c-0713b97c18d4", "besteffort", "containerd"),
        ("6311ef3c-927e-22a9-0a6c-5bff01e53220", "burstable", "crio"),
        ("af9260a4-6df5-69c9-e835-8a19e853f684", "guaranteed", "containerd"),
    ]
    assert [place.container_id for place in places] == [
        re.findall(r"[0-9a-f]{64}", line)[0] for line in lines
    ]


@pytest.mark.shared
def test_a_captured_folder_gives_its_pod(shared: Path) -> None:
    text = (shared / "cases/cgroup-v1-max-usage-above-limit.txt").read_text()

    places = [
        parse_path(line.removeprefix("/sys/fs/cgroup/memory"))[0] for line in text.splitlines()
    ]

    assert {(place.pod_uid, place.qos, place.container_id) for place in places} == {
        ("c3e27797-2022-5ce5-8151-55e871b50ef3", "burstable", "")
    }

"""Pods that have a cgroup, in the layouts of kubelets."""

import pytest

from rightslice.exporter.host.owners.pod_cgroups import PodCgroups
from rightslice.exporter.simulate.proc_tree import ProcTree

UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"
UID_ = UID.replace("-", "_")
STATIC_UID = "5a1b0c9d8e7f60514233241506978899"
GONE_UID = "00000000-1111-4222-8333-444444444444"
SLICE = "kubepods-besteffort"


def scanned(tree: ProcTree) -> PodCgroups:
    cgroups = PodCgroups(tree.sysfs)
    cgroups.scan()
    return cgroups


@pytest.mark.parametrize(
    ("path", "uid"),
    [
        pytest.param(f"kubepods/burstable/pod{UID}/x", UID, id="v2, cgroupfs"),
        pytest.param(f"kubepods/pod{UID}", UID, id="v2, cgroupfs, guaranteed"),
        pytest.param(
            f"kubepods.slice/{SLICE}.slice/{SLICE}-pod{UID_}.slice", UID, id="v2, systemd"
        ),
        pytest.param(f"kubepods.slice/kubepods-pod{STATIC_UID}.slice", STATIC_UID, id="static pod"),
        pytest.param(f"memory/kubepods/besteffort/pod{UID}", UID, id="v1, cgroupfs"),
        pytest.param(f"systemd/kubepods.slice/kubepods-pod{UID_}.slice", UID, id="v1, systemd"),
        pytest.param(f"kubelet/kubepods/pod{UID}", UID, id="root of its own"),
        pytest.param(f"memory/kubelet/kubepods/pod{UID}", UID, id="v1, root of its own"),
        pytest.param(
            f"kubelet.slice/kubelet-kubepods.slice/kubelet-{SLICE}.slice/"
            f"kubelet-{SLICE}-pod{UID_}.slice",
            UID,
            id="slice of its own",
        ),
    ],
)
def test_a_pod_with_a_folder_is_alive(path: str, uid: str, tree: ProcTree) -> None:
    tree.add_cgroup(path)

    assert scanned(tree).is_alive(uid) is True


def test_where_no_tree_is_visible_nothing_is_known(tree: ProcTree) -> None:
    tree.add_cgroup("system.slice/sshd.service")

    assert scanned(tree).is_alive(UID) is None
    assert scanned(ProcTree(tree.root / "missing")).is_alive(UID) is None


def test_a_pod_without_a_folder_is_dead_once_it_was_looked_for(tree: ProcTree) -> None:
    tree.add_cgroup(f"kubepods/pod{UID}")
    cgroups = scanned(tree)

    # It may have begun since the scan.
    before = cgroups.is_alive(GONE_UID)
    cgroups.scan()

    assert (before, cgroups.is_alive(GONE_UID)) == (None, False)
    cgroups.scan()
    assert cgroups.is_alive(GONE_UID) is False


def test_a_pod_that_ends_is_dead(tree: ProcTree) -> None:
    tree.add_cgroup("kubepods/burstable")
    folder = tree.add_cgroup(f"kubepods/pod{UID}")
    cgroups = scanned(tree)
    alive = cgroups.is_alive(UID)
    (folder / "cgroup.procs").unlink()
    folder.rmdir()

    cgroups.scan()
    cgroups.is_alive(UID)
    cgroups.scan()

    assert (alive, cgroups.is_alive(UID)) == (True, False)


def test_other_folders_are_no_pods(tree: ProcTree) -> None:
    tree.add_cgroup("kubepods/burstable/podless")
    tree.add_cgroup(f"kubepods/burstable/other/pod{UID}")
    cgroups = scanned(tree)
    cgroups.is_alive(UID)

    cgroups.scan()

    assert cgroups.is_alive(UID) is False


@pytest.mark.parametrize(
    ("folder", "told", "path"),
    [
        pytest.param(
            f"kubepods.slice/{SLICE}.slice/{SLICE}-pod{UID_}.slice",
            f"/../../../{SLICE}.slice/{SLICE}-pod{UID_}.slice/cri-containerd-ab.scope",
            f"/kubepods.slice/{SLICE}.slice/{SLICE}-pod{UID_}.slice/cri-containerd-ab.scope",
            id="v2, systemd",
        ),
        pytest.param(
            f"memory/kubelet/kubepods/burstable/pod{UID}",
            f"/../../pod{UID}/ab",
            f"/kubelet/kubepods/burstable/pod{UID}/ab",
            id="v1, cgroupfs, root of its own",
        ),
        pytest.param(
            f"kubepods/pod{UID}", f"/kubepods/pod{UID}/ab", f"/kubepods/pod{UID}/ab", id="whole"
        ),
        pytest.param("kubepods/burstable", f"/../pod{UID}/ab", None, id="of a pod that is gone"),
    ],
)
def test_a_path_that_is_relative_to_a_namespace_is_found_by_the_pod(
    folder: str, told: str, path: str | None, tree: ProcTree
) -> None:
    tree.add_cgroup(folder)

    assert scanned(tree).path(told, UID) == path


def test_a_pod_may_be_in_one_tree_of_several(tree: ProcTree) -> None:
    tree.add_cgroup("memory/kubepods/burstable")
    tree.add_cgroup(f"cpu,cpuacct/kubepods/burstable/pod{UID}")

    assert scanned(tree).is_alive(UID) is True

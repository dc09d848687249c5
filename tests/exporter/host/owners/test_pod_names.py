"""Names of pods and containers, from listings of the kubelet's folders."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rightslice.exporter.host.owners.pod_names import CONTAINER_LINK, POD_FOLDER, PodName, PodNames
from rightslice.exporter.simulate.proc_tree import ProcTree

UID = "3f0c5a1e-6b7d-4a2c-9d18-0e4f7b6c2a91"
STATIC_UID = "5a1b0c9d8e7f60514233241506978899"
ID, OTHER_ID = "ab" * 32, "cd" * 32


def scanned(tree: ProcTree, now_seconds: float = 0.0) -> PodNames:
    names = PodNames(tree.pods_folder)
    names.scan(now_seconds)
    return names


def test_a_folder_names_a_pod_and_its_containers(tree: ProcTree) -> None:
    tree.add_pod("team-a", "train.v2-0", UID, {"main": ID, "sidecar": ""})

    names = scanned(tree)

    assert names.pod(UID) == PodName("team-a", "train.v2-0", ("main", "sidecar"))
    assert not names.is_wanted


def test_a_static_pod_has_a_hash_for_a_uid(tree: ProcTree) -> None:
    tree.add_pod("kube-system", "monitor-node-1", STATIC_UID)

    assert scanned(tree).pod(STATIC_UID) == PodName("kube-system", "monitor-node-1")


def test_a_link_names_a_container(tree: ProcTree) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main-2": ID})

    assert scanned(tree).container_name(ID) == "main-2"


def test_who_asks_for_an_unknown_name_wants_a_scan(tree: ProcTree) -> None:
    names = scanned(tree)

    found = names.pod(UID)
    was_wanted_for_pod = names.is_wanted
    names.scan(1.0)

    assert (found, was_wanted_for_pod, names.is_wanted) == (None, True, False)
    assert names.container_name(ID) is None
    assert names.is_wanted


def test_names_are_as_of_the_last_scan(tree: ProcTree) -> None:
    names = scanned(tree)
    tree.add_pod("team-a", "train-0", UID)
    before = names.pod(UID)

    names.scan(30.0)

    assert (before, names.pod(UID)) == (None, PodName("team-a", "train-0"))
    assert names.since_seconds == 30.0


def test_a_name_may_have_several_uids(tree: ProcTree) -> None:
    tree.add_pod("team-a", "train-0", UID)
    tree.add_pod("team-a", "train-0", STATIC_UID)
    tree.add_pod("team-b", "train-0", UID[::-1])

    names = scanned(tree)

    assert names.uids("team-a", "train-0") == (UID, STATIC_UID)
    assert names.uids("team-a", "train-1") == ()


def test_a_pod_that_is_gone_has_no_name(tree: ProcTree) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    names = scanned(tree)
    tree.remove_pod("team-a", "train-0", UID)

    names.scan(30.0)

    assert (names.pod(UID), names.container_name(ID)) == (None, None)


def test_a_node_without_pods_has_no_names_and_no_trouble(tree: ProcTree) -> None:
    names = scanned(tree)

    assert (names.pod(UID), names.unavailable_reason) == (None, None)


def test_other_entries_are_no_names(tree: ProcTree) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ""})
    for name in ("lost+found", "a_b", f"A_B_{UID}", f"team_a_b_{UID}", "x_y_z"):
        (tree.pods_folder / name).mkdir()
    for name in ("main.log", f"x_{ID}.log", f"a_b_c-{ID[1:]}.log", f"a_b_c-{ID}.log.1"):
        (tree.containers_folder / name).touch()
    (tree.pods_folder / f"team-a_train-0_{UID}" / "file").touch()

    names = scanned(tree)

    assert names.pod(UID) == PodName("team-a", "train-0", ("main",))
    assert names.container_name(ID) is None


def test_a_file_in_the_place_of_the_folder_is_no_trouble(tree: ProcTree) -> None:
    tree.pods_folder.parent.mkdir(parents=True)
    tree.pods_folder.touch()

    assert scanned(tree).unavailable_reason is None


def test_a_folder_that_cannot_be_listed_says_so_and_keeps_the_names(
    tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.add_pod("team-a", "train-0", UID)
    names = scanned(tree)

    def forbid(folder: Path) -> list[str]:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "listdir", forbid)  # root, which tests may be, is denied nothing
    names.scan(30.0)

    assert names.unavailable_reason == (
        f"{tree.pods_folder} cannot be read (Permission denied): "
        "run as root, or give the user read access to it"
    )
    assert names.pod(UID) == PodName("team-a", "train-0")
    assert names.since_seconds == 0.0


@pytest.mark.parametrize("shut", ["pods", "containers"])
def test_what_can_be_listed_is_used_beside_what_cannot(
    shut: str, tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree.add_pod("team-a", "train-0", UID, {"main": ID})
    list_folder = os.listdir

    def forbid(folder: Path) -> list[str]:
        if folder.name == shut:
            raise PermissionError(13, "Permission denied", str(folder))
        return list_folder(folder)

    monkeypatch.setattr(os, "listdir", forbid)  # root, which tests may be, is denied nothing
    names = scanned(tree, 30.0)

    known = (names.pod(UID) is not None, names.container_name(ID) is not None)
    assert known == (shut != "pods", shut != "containers")
    assert names.since_seconds == (30.0 if shut == "containers" else float("-inf"))
    assert (names.unavailable_reason or "").startswith(f"{tree.root}/var/log/{shut} cannot be read")


def test_the_trouble_ends_with_a_scan_that_works(
    tree: ProcTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = PodNames(tree.pods_folder)
    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", lambda folder: os.readlink(tree.root))
        names.scan(0.0)
    reason = names.unavailable_reason or ""

    names.scan(30.0)

    assert reason.endswith("cannot be read (Invalid argument): see the disk")
    assert names.unavailable_reason is None


@given(st.text())
def test_no_name_breaks_the_patterns(name: str) -> None:
    POD_FOLDER.fullmatch(name)
    CONTAINER_LINK.fullmatch(name)

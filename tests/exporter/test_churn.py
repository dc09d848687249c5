"""Workloads that come and go leave nothing behind: no series, and nothing that is remembered."""

from support.tenants import GIB, Tenants, granted, pod, process, shared_card, tenants

GENERATIONS, PODS_PER_GENERATION, ROUNDS = 60, 10, 4
STEP_SECONDS = 60.0
CARD_IDS = range(100, 100 + PODS_PER_GENERATION)


def generation(node: Tenants, number: int) -> None:
    """Let ten pods take the places of the ten before them."""
    pods = [pod(f"pod-{number}-{each}") for each in range(PODS_PER_GENERATION)]
    for process_id, each in zip(CARD_IDS, pods, strict=True):
        node.run(each, process_id, start_ticks=number + 1)
    node.kubelet.set_pods([granted(each.pod, f"nvidia0/vgpu{i}") for i, each in enumerate(pods)])
    for _ in range(ROUNDS):
        node.node.sample_rounds(node.sampler, 1, STEP_SECONDS)
        node.scrape()
    for each in pods:
        node.tree.remove_cgroup(each.pod_cgroup_path)
        node.tree.remove_pod(each.namespace, each.pod, each.pod_uid)


def test_hundreds_of_pods_that_came_and_went_leave_the_page_and_the_memory_as_they_were() -> None:
    rows = (process(process_id, 1, 0.05) for process_id in CARD_IDS)
    with tenants(shared_card(1, *rows)) as node:
        line_counts, remembered_counts = [], []
        for number in range(GENERATIONS):
            generation(node, number)
            line_counts.append(len(node.scrape().splitlines()))
            remembered_counts.append(node.node.host.attribution.owners.process_count)

        assert len(set(line_counts[2:])) == 1
        assert set(remembered_counts) == {PODS_PER_GENERATION}
        assert node.by_pod("memory_used_bytes") == {
            f"pod-{GENERATIONS - 1}-{each}": GIB for each in range(PODS_PER_GENERATION)
        }

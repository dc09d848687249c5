"""What 10,000 pods that come and go leave behind: memory and series of one exporter.

A plain script: `./run bench`, a minute or two; 1,000 pods with `--quick`. Time is simulated, all
else is the program's own: a hundred pods at a time on eight cards, scraped once a minute.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path

from support.tenants import Tenants, granted, pod, process, shared_card, tenants

AT_ONCE, CARD_COUNT = 100, 8
POD_COUNT = 1_000 if "--quick" in sys.argv else 10_000
ROUNDS_PER_GENERATION, STEP_SECONDS = 4, 60.0
FIRST_PROCESS_ID = 1_000
LOOKS = 10
BYTES_PER_MIB = 1024**2


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / BYTES_PER_MIB


def live(node: Tenants, names: Sequence[str], number: int) -> int:
    """Let pods run for some minutes, and give the lines of the last page."""
    pods = [pod(name) for name in names]
    lines = 0
    for position, each in enumerate(pods):
        node.run(each, FIRST_PROCESS_ID + position, start_ticks=number + 1)
    node.kubelet.set_pods(
        [granted(each.pod, f"nvidia{i % CARD_COUNT}/vgpu{i}") for i, each in enumerate(pods)]
    )
    for _ in range(ROUNDS_PER_GENERATION):
        node.node.sample_rounds(node.sampler, 1, STEP_SECONDS)
        lines = node.scrape().count(b"\n")
    for each in pods:
        node.tree.remove_cgroup(each.pod_cgroup_path)
        node.tree.remove_pod(each.namespace, each.pod, each.pod_uid)
    return lines


def main() -> None:
    print(f"{POD_COUNT} pods, {AT_ONCE} at a time on {CARD_COUNT} cards (aim: flat)")
    cards = [
        shared_card(
            number,
            *(
                process(FIRST_PROCESS_ID + position, 0.5, 0.05)
                for position in range(number - 1, AT_ONCE, CARD_COUNT)
            ),
        )
        for number in range(1, CARD_COUNT + 1)
    ]
    generations = POD_COUNT // AT_ONCE
    print(f"{'pods':>8}{'resident MiB':>15}{'lines of the page':>20}")
    with tenants(*cards) as node:
        for number in range(generations):
            names = [f"pod-{number}-{position}" for position in range(AT_ONCE)]
            lines = live(node, names, number)
            if (number + 1) % max(generations // LOOKS, 1) == 0:
                print(f"{(number + 1) * AT_ONCE:8}{resident_mib():15.1f}{lines:20}", flush=True)


if __name__ == "__main__":
    main()

"""What mapping a fleet's stored gauges costs: 100 cards, six fields, each 30 s, for 28 days.

A plain script. Figures of one run, on one machine.
"""

import resource
import time
from collections.abc import Iterator

import numpy as np
from support.gauge_series import Stored

from rightslice.feeders.gauges.mapper import GaugeMapper
from rightslice.feeders.gauges.mapping import shipped_mapping

CARDS, CARDS_AT_ONCE, DAYS = 100, 20, 28
STEP_SECONDS, LEAD_SECONDS, DAY_SECONDS = 30.0, 600.0, 86_400
START = 1_700_000_400 // 3600 * 3600
HIGHEST = {
    "DCGM_FI_DEV_FB_USED": 30_000.0,
    "DCGM_FI_DEV_FB_FREE": 9_000.0,
    "DCGM_FI_DEV_FB_RESERVED": 400.0,
    "DCGM_FI_DEV_GPU_UTIL": 100.0,
    "DCGM_FI_PROF_SM_ACTIVE": 1.0,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 1.0,
}


def span(day: int, first_card: int, random: np.random.Generator) -> Iterator[Stored]:
    """Make a day of some cards, with what lies around it."""
    begin = START + day * DAY_SECONDS
    for card in range(first_card, first_card + CARDS_AT_ONCE):
        stamps = np.arange(
            begin - LEAD_SECONDS + card % 7, begin + DAY_SECONDS + LEAD_SECONDS, STEP_SECONDS
        )
        for name, highest in HIGHEST.items():
            labels = {
                "__name__": name,
                "UUID": f"GPU-{card}",
                "Hostname": f"node-{card // 8}",
                "modelName": "NVIDIA A100-SXM4-40GB",
                "pod": f"pod-{card}",
                "namespace": "ns",
                "container": "c",
            }
            yield Stored(labels, stamps, random.uniform(0, highest, len(stamps)))


def main() -> None:
    random, mapper = np.random.default_rng(1), GaugeMapper(shipped_mapping("dcgm"))
    samples, seconds = 0, 0.0
    for day in range(DAYS):
        for first_card in range(0, CARDS, CARDS_AT_ONCE):
            series = list(span(day, first_card, random))
            samples += sum(len(one.stamps) for one in series)
            started = time.perf_counter()
            mapper.take_series(series)
            seconds += time.perf_counter() - started
        mapper.forget_before(START // 3600 + 24 * day)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"map {samples:,} samples   {seconds:.1f} s   {1e6 * seconds / samples:.3f} us/sample"
        f"   at most {peak_mib:.0f} MiB"
    )


if __name__ == "__main__":
    main()

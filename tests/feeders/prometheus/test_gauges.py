"""Cards of other exporters in a Prometheus, and how they are asked for."""

from rightslice.feeders.gauges.mapping import shipped_mapping
from rightslice.feeders.prometheus.gauges import cards_of

DCGM = shipped_mapping("dcgm")


def labels(name: str, **told: str) -> dict[str, str]:
    return {"__name__": name, **told}


def test_a_card_is_asked_for_under_each_spelling_that_tells_it() -> None:
    found = cards_of(
        DCGM,
        [
            labels("DCGM_FI_DEV_FB_USED", UUID="GPU-1"),
            labels("dcgm_fi_dev_gpu_util", uuid="GPU-1"),
            labels("DCGM_FI_DEV_FB_USED", UUID="GPU-2"),
        ],
    )

    assert found.metric_names == ("DCGM_FI_DEV_FB_USED", "dcgm_fi_dev_gpu_util")
    assert found.cards == {
        "GPU-1": {(("UUID",), ("GPU-1",)), (("uuid",), ("GPU-1",))},
        "GPU-2": {(("UUID",), ("GPU-2",))},
    }


def test_series_of_others_are_not_of_this_mapping() -> None:
    found = cards_of(DCGM, [labels("nvidia_smi_memory_used_bytes", uuid="1")])

    assert not found.label_sets
    assert found.told_name == ""


def test_what_tells_whether_cards_were_read_is_the_metric_that_is_there() -> None:
    found = cards_of(DCGM, [labels("DCGM_FI_DEV_GPU_UTIL", UUID="GPU-1")])

    assert found.told_name == "DCGM_FI_DEV_GPU_UTIL"


def test_a_series_without_a_card_is_asked_for_by_nobody() -> None:
    assert cards_of(DCGM, [labels("DCGM_FI_DEV_GPU_UTIL")]).cards == {}

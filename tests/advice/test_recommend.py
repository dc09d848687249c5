"""The answer for a card: the cheapest that fits without a new risk, or why there is none."""

from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import pytest
from support.usage import (
    END,
    GIB,
    H100_80GB,
    UUID,
    usage_profile_of,
)

from rightslice.advice.candidate import Kind
from rightslice.advice.policy import DEFAULT_POLICY, Policy
from rightslice.advice.recommend import (
    Answer,
    NoAdvice,
    Recommendation,
    recommend,
    recommendation_id,
    saves,
    urgency,
)
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import PriceBook, load_price_book
from rightslice.profile.flags import FLAG_MIG, FLAG_STUCK_COUNTER
from rightslice.profile.profile import IdleClass, Signal, UsageProfile

BOOK = load_price_book()
CHAT = usage_profile_of()
UNUSED = replace(CHAT, memory_used_peak_bytes=4 << 20, busy_ratio=0.0)
TWIN = usage_profile_of(compute={0.04: 0.948, 0.12: 0.05, 0.5: 0.002})


def yuan(amount: int | str) -> Money:
    return Money.exactly(Decimal(amount), "CNY")


def answer(
    profile: UsageProfile = CHAT,
    *,
    book: PriceBook = BOOK,
    policy: Policy = DEFAULT_POLICY,
    now: datetime = END,
    channel: str | None = None,
) -> Answer:
    return recommend(profile, book, policy, now, channel)


def advice(profile: UsageProfile = CHAT, *, policy: Policy = DEFAULT_POLICY) -> Recommendation:
    given_answer = answer(profile, policy=policy)
    assert isinstance(given_answer, Recommendation)
    return given_answer


def test_the_chat_service_is_led_to_a_twentieth_of_an_a100() -> None:
    headline = advice().headline

    month, year = headline.saving("month"), headline.saving("year")
    assert (headline.name, headline.price_per_month) == ("A100 1/20", yuan(900))
    assert month is not None
    assert year is not None
    assert (month.per_month, month.per_year) == (yuan(1600), yuan(19_200))
    assert year.per_year == yuan(15_360)


def test_a_cheaper_card_with_a_risk_stands_above_the_fold_with_its_saving_and_check() -> None:
    first = advice().above_the_fold[0]

    saving = first.saving("month")
    assert (first.name, first.price_per_month) == ("T4 whole", yuan(850))
    assert [check.text for check in first.checks] == ["check: older architecture, no BF16"]
    assert saving is not None
    assert saving.per_month == yuan(1650)


def test_what_costs_more_than_the_headline_is_not_above_the_fold() -> None:
    assert [one.name for one in advice().above_the_fold] == ["T4 whole", "RTX 2080 Ti whole"]


def test_candidates_come_fitting_first_and_cheapest_first() -> None:
    candidates = advice().candidates

    fits = [one.fits for one in candidates]
    prices = [one.price_per_month.middle for one in candidates if one.fits and one.price_per_month]
    assert fits == sorted(fits, reverse=True)
    assert prices == sorted(prices)
    assert candidates[-1].name == "A100 1/10"


def test_of_candidates_at_one_price_the_one_that_frees_most_comes_first() -> None:
    names = [one.name for one in advice().candidates if one.price_per_month == yuan(2500)]

    assert names[0] == "MIG 1g.5gb"
    assert names[-1] == "A100 40GB whole"


def test_the_twin_with_more_compute_is_not_led_to_the_twentieth() -> None:
    given_advice = advice(TWIN)

    refused = next(one for one in given_advice.candidates if one.name == "A100 1/20")
    assert given_advice.headline.name == "MIG 2g.10gb"
    assert [remark.text for remark in refused.refusals] == [
        "needs 14.4 % of the card's compute (p95 0.120 x 1.2), it gives 5.0 %"
    ]


def test_a_card_in_full_use_stays() -> None:
    busy = usage_profile_of(memory_gib=35, compute={0.9: 1.0})

    given_advice = advice(replace(busy, idle_class=IdleClass.OK))

    assert given_advice.headline.kind is Kind.STAY
    assert given_advice.headline.name == "A100 40GB whole"
    assert not saves(given_advice)


@pytest.mark.parametrize(
    ("idle_class", "headline"),
    [
        pytest.param(IdleClass.UNALLOCATED, Kind.STAY, id="in use by nobody known"),
        pytest.param(IdleClass.NEVER_USED, Kind.GIVE_BACK, id="never used"),
        pytest.param(IdleClass.PARKED, Kind.RENT_SLICE, id="parked: a model may be needed"),
        pytest.param(IdleClass.UNKNOWN, Kind.RENT_SLICE, id="holders unknown: never given back"),
    ],
)
def test_a_card_is_given_back_only_when_nobody_uses_it(
    idle_class: IdleClass, headline: Kind
) -> None:
    assert advice(replace(CHAT, idle_class=idle_class)).headline.kind is headline


def test_a_card_that_nobody_holds_needs_no_compute_reading_to_be_given_back() -> None:
    free = replace(
        UNUSED, idle_class=IdleClass.UNALLOCATED, signal=Signal.NONE, compute_bin_seconds=()
    )

    assert advice(free).headline.kind is Kind.GIVE_BACK


def test_a_card_in_use_by_nobody_known_is_given_back_only_after_a_look() -> None:
    answered = advice(replace(CHAT, idle_class=IdleClass.UNALLOCATED))

    assert answered.headline.kind is Kind.STAY
    assert [check.code for check in answered.above_the_fold[0].checks] == ["unrequested_use"]


def test_memory_that_stays_reserved_on_a_free_card_is_no_veto() -> None:
    free = replace(UNUSED, idle_class=IdleClass.UNALLOCATED, memory_is_pre_allocated=True)

    assert advice(free).headline.kind is Kind.GIVE_BACK


@pytest.mark.parametrize(
    ("profile", "code", "sentence"),
    [
        pytest.param(
            replace(CHAT, end=END - timedelta(hours=25)),
            "gone",
            "not seen since 2026-09-13 23:00 UTC; it may have left",
            id="gone",
        ),
        pytest.param(
            usage_profile_of(observed_hours=0),
            "unobserved",
            "no memory reading in the window: unknown, not idle",
            id="never observed",
        ),
        pytest.param(
            usage_profile_of(observed_hours=11.96),
            "too_little_history",
            "12.0 h observed, 12 h needed",
            id="just below half a day",
        ),
        pytest.param(
            usage_profile_of(observed_hours=3),
            "too_little_history",
            "3.0 h observed, 12 h needed",
            id="three hours",
        ),
        pytest.param(
            replace(CHAT, coverage_ratio=0.794),
            "low_coverage",
            "79.4 % of its time observed, 80.0 % needed",
            id="gaps",
        ),
        pytest.param(
            replace(CHAT, most_cards=8),
            "several_cards",
            "a workload on it holds 8 cards at once: never cut a card of such a job",
            id="part of a job of several cards",
        ),
        pytest.param(
            replace(CHAT, is_shared=True),
            "shared_card",
            "several workloads share it and the readings are of the whole card: what each needs "
            "is not known",
            id="shared",
        ),
        pytest.param(
            replace(CHAT, quality=(FLAG_STUCK_COUNTER,), signal=Signal.BUSY, busy_ratio=0.873),
            "stuck_counter",
            "SM activity read 0 while the card was busy 87.3 % of the time: the profiling "
            "counter is broken",
            id="broken profiling counter",
        ),
        pytest.param(
            replace(CHAT, quality=(FLAG_MIG,)),
            "mig_card",
            "it is cut by MIG and its instances are used one by one; advice on instances is not "
            "given yet",
            id="MIG mode",
        ),
        pytest.param(
            replace(CHAT, holder_coverage_ratio=0.5),
            "holders_unknown",
            "who holds it is known for 50.0 % of its time, 80.0 % needed",
            id="holders not seen",
        ),
        pytest.param(
            replace(CHAT, compute_coverage_ratio=0.1),
            "low_compute_coverage",
            "its compute was observed 10.0 % of its time, 80.0 % needed",
            id="compute hardly seen",
        ),
        pytest.param(
            usage_profile_of(card_name="NVIDIA A101"),
            "unknown_card",
            "NVIDIA A101 with 40.00 GiB is no card in the hardware facts",
            id="unknown name",
        ),
        pytest.param(
            usage_profile_of(memory_total_gib=20),
            "unknown_card",
            "NVIDIA A100-SXM4-40GB with 20.00 GiB is no card in the hardware facts",
            id="known name with another memory",
        ),
        pytest.param(
            replace(CHAT, card_name="", memory_total_bytes=None),
            "unknown_card",
            "a card without a name with unknown memory is no card in the hardware facts",
            id="no name",
        ),
        pytest.param(
            usage_profile_of(card_name="NVIDIA L4", memory_total_gib=22.5),
            "no_price",
            "the price book has no price for NVIDIA L4 in that channel; add it with --prices",
            id="card not in the price book",
        ),
        pytest.param(
            replace(CHAT, memory_is_pre_allocated=True, memory_used_peak_bytes=36 * GIB),
            "pre_allocated",
            "memory stands flat at 36.00 GiB: an engine reserved it when it started, what it "
            "needs of it cannot be seen from outside",
            id="memory reserved by an engine",
        ),
        pytest.param(
            replace(CHAT, signal=Signal.NONE, compute_bin_seconds=()),
            "compute_unmeasured",
            "held, but its compute is not measured",
            id="no compute reading",
        ),
    ],
)
def test_no_advice_says_why_with_the_numbers(
    profile: UsageProfile, code: str, sentence: str
) -> None:
    given_answer = answer(profile)

    assert isinstance(given_answer, NoAdvice)
    assert (given_answer.reason.code, given_answer.reason.text) == (code, sentence)
    assert given_answer.profile == profile
    assert not saves(given_answer)


@pytest.mark.parametrize(
    ("profile", "now"),
    [
        pytest.param(CHAT, END + timedelta(hours=6), id="seen six hours ago"),
        pytest.param(usage_profile_of(observed_hours=12), END, id="half a day observed"),
        pytest.param(replace(CHAT, coverage_ratio=0.8), END, id="80 % covered"),
    ],
)
def test_data_that_just_suffices_carries_advice(profile: UsageProfile, now: datetime) -> None:
    assert isinstance(answer(profile, now=now), Recommendation)


def test_no_advice_still_tells_what_the_card_costs() -> None:
    gone = answer(replace(CHAT, end=END - timedelta(days=9)))
    unpriced = answer(usage_profile_of(card_name="NVIDIA L4", memory_total_gib=22.5))

    assert isinstance(gone, NoAdvice)
    assert isinstance(unpriced, NoAdvice)
    assert gone.present is not None
    assert gone.present.price_per_month == yuan(2500)
    assert unpriced.present is None


def test_a_card_whose_price_is_unknown_gets_no_advice_and_no_price_of_zero() -> None:
    book = replace(BOOK, cards=tuple(replace(card, price_per_month=None) for card in BOOK.cards))

    given_answer = answer(book=book)

    assert isinstance(given_answer, NoAdvice)
    assert given_answer.reason.code == "no_price"
    assert given_answer.present is not None
    assert given_answer.present.price_per_month is None


@pytest.mark.parametrize(
    ("channel", "price"), [(None, "2500"), ("custom", "2800"), ("server", "2800")]
)
def test_the_channel_decides_what_the_card_costs_now(channel: str | None, price: str) -> None:
    given_answer = answer(channel=channel)

    assert isinstance(given_answer, Recommendation)
    assert given_answer.present.price_per_month == yuan(price)


def test_a_channel_that_does_not_sell_the_card_has_no_price() -> None:
    given_answer = answer(channel="owned")

    assert isinstance(given_answer, NoAdvice)
    assert given_answer.reason.code == "no_price"


def test_an_advice_keeps_its_name_while_it_stays_the_same() -> None:
    later = replace(CHAT, observed_hours=300.0)

    assert advice(CHAT).id == advice(later).id == recommendation_id(UUID, "A100 1/20")
    assert advice(CHAT).id != advice(TWIN).id
    assert advice(CHAT).id != advice(replace(CHAT, uuid="GPU-2")).id


@pytest.mark.parametrize(
    ("signal", "label"),
    [
        (Signal.SM_ACTIVE, "measured over 14.0 days, compute by SM activity"),
        (
            Signal.GR_ENGINE_ACTIVE,
            "measured over 14.0 days, compute by engine activity, an upper bound of SM activity",
        ),
        (
            Signal.BUSY,
            "measured over 14.0 days, compute by the busy gauge alone, "
            "an upper bound of SM activity",
        ),
    ],
)
def test_the_label_says_how_long_and_by_which_signal(signal: Signal, label: str) -> None:
    assert advice(replace(CHAT, signal=signal)).label == label


def test_a_free_card_without_a_compute_reading_says_so() -> None:
    free = replace(
        UNUSED, idle_class=IdleClass.UNALLOCATED, signal=Signal.NONE, compute_bin_seconds=()
    )

    assert advice(free).label == "measured over 14.0 days, compute not measured"


def test_the_largest_saving_comes_first_then_the_most_capacity_then_no_advice() -> None:
    saving, none = answer(), answer(replace(CHAT, coverage_ratio=0.1))
    giving_back = answer(replace(UNUSED, idle_class=IdleClass.UNALLOCATED))
    capacity = answer(TWIN)
    on_h100 = usage_profile_of(card_name=H100_80GB, memory_total_gib=79.6, memory_gib=30)
    more_capacity = answer(on_h100)

    ordered = sorted([none, capacity, saving, more_capacity, giving_back], key=urgency)

    assert ordered == [giving_back, saving, more_capacity, capacity, none]
    assert [saves(one) for one in ordered] == [True, True, True, True, False]

"""What holds for every use, price and policy: no hidden loss, no free lunch from strictness."""

from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st
from support.usage import END, GIB, usage_profile_of

from rightslice.advice.candidate import Candidate, Kind
from rightslice.advice.policy import DEFAULT_POLICY, ISOLATION_ORDER, ComputePolicy, Policy
from rightslice.advice.recommend import Recommendation, recommend
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import PriceBook, load_price_book
from rightslice.profile.profile import UsageProfile

BOOK = load_price_book()
ZERO = Money.exactly(0, "CNY")


def candidates_of(
    profile: UsageProfile, *, book: PriceBook = BOOK, policy: Policy = DEFAULT_POLICY
) -> tuple[Candidate, ...]:
    """Give an answer's candidates; none where there is no advice."""
    answer = recommend(profile, book, policy, END)
    return answer.candidates if isinstance(answer, Recommendation) else ()


def fitting(profile: UsageProfile, policy: Policy) -> set[tuple[Kind, str]]:
    """The kinds and names of what fits."""
    return {(one.kind, one.name) for one in candidates_of(profile, policy=policy) if one.fits}


prices = st.integers(20, 100_000).map(lambda amount: Money.exactly(amount, "CNY"))
levels = st.dictionaries(
    st.floats(min_value=0, max_value=1), st.integers(1, 100), min_size=1, max_size=6
)
profiles = st.builds(
    usage_profile_of,
    memory_gib=st.floats(0, 40),
    compute=levels,
    observed_hours=st.sampled_from([13.0, 100.0, 336.0]),
)


def priced(amounts: list[Money | None]) -> PriceBook:
    """The built-in book with other prices; terms stay as they are."""
    ahead = len(BOOK.slices)
    return replace(
        BOOK,
        slices=tuple(
            replace(offer, price_per_month=amount)
            for offer, amount in zip(BOOK.slices, amounts, strict=False)
        ),
        cards=tuple(
            replace(offer, price_per_month=amount)
            for offer, amount in zip(BOOK.cards, amounts[ahead:], strict=True)
        ),
    )


OFFER_COUNT = len(BOOK.slices) + len(BOOK.cards)


@settings(deadline=None, max_examples=60)
@given(profiles, st.lists(prices, min_size=OFFER_COUNT, max_size=OFFER_COUNT))
def test_what_fits_and_is_cheaper_never_costs_more_than_it_saves(
    profile: UsageProfile, amounts: list[Money | None]
) -> None:
    candidates = candidates_of(profile, book=priced(amounts))

    losses = [
        (one.name, saving.term)
        for one in candidates
        for saving in one.savings
        if one.fits and saving.per_month.low < 0
    ]
    assert candidates
    assert losses == []


@settings(deadline=None, max_examples=60)
@given(
    profiles,
    st.lists(st.one_of(st.none(), prices), min_size=OFFER_COUNT, max_size=OFFER_COUNT),
)
def test_an_unknown_price_never_becomes_zero(
    profile: UsageProfile, amounts: list[Money | None]
) -> None:
    book = priced(amounts)
    unknown = {offer.name for offer in book.slices if offer.price_per_month is None}

    candidates = candidates_of(profile, book=book)

    assert [one for one in candidates if one.price_per_month == ZERO] == []
    assert [one for one in candidates if one.fits and one.price_per_month is None] == []
    assert [one for one in candidates if one.name in unknown and (one.fits or one.savings)] == []


policies = st.builds(
    Policy,
    compute=st.builds(
        ComputePolicy,
        rank=st.floats(0.5, 1.0),
        factor=st.fractions(min_value=1, max_value=2, max_denominator=20),
    ),
    required_isolation=st.sampled_from(ISOLATION_ORDER),
    memory_headroom_ratio=st.floats(0, 1),
    memory_headroom_below_week_ratio=st.floats(0, 1),
    memory_headroom_below_day_ratio=st.floats(0, 1),
)


def stricter_of(first: Policy, second: Policy) -> Policy:
    """Take the stricter of two policies in every respect."""
    return Policy(
        compute=ComputePolicy(
            max(first.compute.rank, second.compute.rank),
            max(first.compute.factor, second.compute.factor),
        ),
        required_isolation=max(
            first.required_isolation, second.required_isolation, key=ISOLATION_ORDER.index
        ),
        memory_headroom_ratio=max(first.memory_headroom_ratio, second.memory_headroom_ratio),
        memory_headroom_below_week_ratio=max(
            first.memory_headroom_below_week_ratio, second.memory_headroom_below_week_ratio
        ),
        memory_headroom_below_day_ratio=max(
            first.memory_headroom_below_day_ratio, second.memory_headroom_below_day_ratio
        ),
    )


@settings(deadline=None)
@given(profiles, policies, policies)
def test_a_stricter_policy_never_makes_a_refused_tier_fit(
    profile: UsageProfile, first: Policy, second: Policy
) -> None:
    strict = fitting(profile, stricter_of(first, second))

    assert strict <= fitting(profile, first)


@settings(deadline=None)
@given(profiles, st.floats(0, 1), st.floats(0, 1))
def test_more_headroom_never_picks_a_smaller_tier(
    profile: UsageProfile, first: float, second: float
) -> None:
    def smallest_bytes(headroom_ratio: float) -> int:
        policy = Policy(
            memory_headroom_ratio=headroom_ratio,
            memory_headroom_below_week_ratio=headroom_ratio,
            memory_headroom_below_day_ratio=headroom_ratio,
            compute=ComputePolicy(0.95, Fraction(1) + Fraction(str(headroom_ratio))),
        )
        return min(
            one.memory_usable_bytes or 40 * GIB
            for one in candidates_of(profile, policy=policy)
            if one.fits
        )

    assert smallest_bytes(min(first, second)) <= smallest_bytes(max(first, second))

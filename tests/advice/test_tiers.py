"""Every candidate says by code and sentence why it fits, does not, or needs a look."""

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from support.usage import A100_40GB, GIB, H100_80GB, usage_profile_of

from rightslice.advice.candidate import Candidate, Cash, Kind, Remark
from rightslice.advice.needs import needs_of
from rightslice.advice.policy import DEFAULT_POLICY, Isolation, Policy
from rightslice.advice.tiers import (
    Question,
    all_candidates,
    give_back,
    mig_slices,
    relative_compute,
    rented_slice,
    stay,
    whole_card,
)
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import (
    Billing,
    CardOffer,
    Mechanism,
    PriceBook,
    SliceOffer,
    load_price_book,
)
from rightslice.facts.cards import CardFacts, find_card
from rightslice.facts.vgpu import find_vgpu_type
from rightslice.profile.profile import IdleClass, Signal, UsageProfile

BOOK = load_price_book()
MIB = 1024**2
SLICES = {offer.name: offer for offer in BOOK.slices}
CARDS = {(offer.name, offer.channel): offer for offer in BOOK.cards}
TWENTIETH, SIXTEENTH, TENTH = SLICES["A100 1/20"], SLICES["A16 1/16"], SLICES["A100 1/10"]
T4 = CARDS["T4", "cloud"]
H100_SERVER = CARDS["8 x H100 80GB SXM + 2 x NDR400", "cloud"]
H100_BOUGHT = CARDS["8 x H100 server bought", "owned"]
HARD = Policy(required_isolation=Isolation.HARD)
SOFT = Policy(required_isolation=Isolation.SOFT)

CHAT = usage_profile_of()
ON_H100 = usage_profile_of(card_name=H100_80GB, memory_total_gib=79.6)
# p95 of 0.12, as measured at a service that looks just as small from outside.
TWIN = usage_profile_of(compute={0.04: 0.948, 0.12: 0.05, 0.5: 0.002})
FIXED_SHARE = Remark(
    "fixed_share",
    "5.0 % of compute is guaranteed only under the fixed-share scheduler; ask the seller",
)


def facts(name: str) -> CardFacts:
    card = find_card(name)
    assert card is not None
    return card


def yuan(low: int | str, high: int | str | None = None) -> Money:
    return Money(Decimal(low), Decimal(low if high is None else high), "CNY")


def ask(
    profile: UsageProfile = CHAT,
    present: CardOffer | None = None,
    policy: Policy = DEFAULT_POLICY,
    book: PriceBook = BOOK,
) -> Question:
    """Ask for candidates of a card at its price in the default channel, or at another offer's."""
    offer = present or book.card_offer(profile.card_name)
    assert offer is not None
    assert offer.price_per_month is not None
    return Question(
        profile=profile,
        needs=needs_of(profile, policy),
        present=offer,
        present_price=offer.price_per_month,
        card=facts(profile.card_name),
        book=book,
        policy=policy,
    )


def whole(question: Question, offer: CardOffer) -> Candidate:
    candidate = whole_card(question, offer)
    assert candidate is not None
    return candidate


def test_the_chat_service_fits_a_twentieth_of_an_a100() -> None:
    candidate = rented_slice(ask(), TWENTIETH)

    assert (candidate.kind, candidate.name) == (Kind.RENT_SLICE, "A100 1/20")
    assert candidate.fits
    assert candidate.checks == ()
    assert candidate.memory_usable_bytes == 4 * GIB
    assert candidate.price_per_month == yuan(900)
    assert candidate.cash is Cash.NOW
    assert candidate.isolation == Isolation.VM
    assert candidate.break_even_replicas == pytest.approx(25 / 9)
    assert candidate.compute is not None
    assert candidate.compute.available_ratio == 0.05
    assert candidate.steps
    assert candidate.way_back == "deploy the workload on A100 40GB whole again"


def test_the_spare_memory_of_a_guest_that_nobody_measured_is_told() -> None:
    candidate = rented_slice(ask(), TWENTIETH)

    assert candidate.notes == (
        Remark(
            "guest_memory_unmeasured",
            "guest memory of A100D-4C not measured yet: 266 MiB to spare",
        ),
        FIXED_SHARE,
    )


def test_the_measured_guest_memory_counts_not_the_memory_sold() -> None:
    on_t4 = usage_profile_of(
        card_name="Tesla T4", memory_total_gib=15, memory_gib=0.75, compute={0.005: 1.0}
    )

    candidate = rented_slice(ask(on_t4), SIXTEENTH)

    assert candidate.fits
    assert candidate.memory_usable_bytes == 896 * MIB
    assert candidate.notes[0] == Remark("guest_memory", "the guest sees 0.88 GiB of 1.00 GiB")


@pytest.mark.parametrize(
    ("memory_gib", "refusals"),
    [
        pytest.param(3.63, (), id="3.63 GiB fits"),
        pytest.param(
            3.64,
            (Remark("memory", "needs 4.00 GiB of memory, it has 4.00 GiB"),),
            id="3.64 GiB does not, by 4 MiB",
        ),
        pytest.param(
            8.0, (Remark("memory", "needs 8.80 GiB of memory, it has 4.00 GiB"),), id="8 GiB"
        ),
    ],
)
def test_memory_with_its_headroom_must_fit(memory_gib: float, refusals: tuple[Remark, ...]) -> None:
    candidate = rented_slice(ask(usage_profile_of(memory_gib=memory_gib)), TWENTIETH)

    assert candidate.refusals == refusals
    assert candidate.fits is (refusals == ())


def test_memory_that_just_fits_leaves_nothing_to_spare() -> None:
    exact = replace(TWENTIETH, memory_bytes=3_300_000_000)
    profile = replace(CHAT, memory_used_peak_bytes=3_000_000_000)

    candidate = rented_slice(ask(profile), exact)

    assert candidate.fits
    assert candidate.memory_spare_bytes == 0
    assert candidate.notes[0].text.endswith("not measured yet: 0 MiB to spare")


def test_the_twin_is_refused_with_its_number() -> None:
    candidate = rented_slice(ask(TWIN), TWENTIETH)

    assert not candidate.fits
    assert candidate.refusals == (
        Remark(
            "compute",
            "needs 14.4 % of the card's compute (p95 0.120 x 1.2), it gives 5.0 %",
        ),
    )


def test_a_refusal_that_a_finer_histogram_might_lift_says_borderline() -> None:
    # A T4 gives 20.6 % of an A100, 17.1 % with headroom; the next lower edge is 1/7.
    profile = usage_profile_of(compute={0.10: 0.94, 0.15: 0.06})

    candidate = whole(ask(profile), T4)

    assert candidate.refusals == (
        Remark(
            "compute",
            "needs 18.3 % of the card's compute (p95 0.152 x 1.2), it gives 20.6 %; "
            "borderline: the histogram is too coarse to tell",
        ),
    )


@pytest.mark.parametrize(
    ("profile", "offer", "refusal"),
    [
        pytest.param(
            replace(CHAT, memory_used_peak_bytes=None),
            TWENTIETH,
            Remark("memory_unknown", "the memory need is not known"),
            id="memory need unknown",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, memory_bytes=None),
            Remark("tier_memory_unknown", "the tier's memory is not known"),
            id="tier's memory unknown",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, gpu=facts("NVIDIA L2")),
            Remark("tier_compute_unknown", "the tier's compute is not known"),
            id="tier's compute unknown",
        ),
        pytest.param(
            replace(CHAT, signal=Signal.NONE, compute_bin_seconds=()),
            TWENTIETH,
            Remark("compute_unknown", "the compute need is not known"),
            id="compute need unknown",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, mechanism=Mechanism.TIME_SLICE),
            Remark("isolation", "isolation is soft, vm is required"),
            id="isolation too weak",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, vgpu_type=find_vgpu_type("A16-1B")),
            Remark("no_cuda", "A16-1B cannot run CUDA"),
            id="no CUDA",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, price_per_month=None),
            Remark("price_unknown", "its price is not known"),
            id="price unknown",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, price_per_month=yuan(2500)),
            Remark("not_cheaper", "it is not cheaper than the present card"),
            id="as dear as the card",
        ),
        pytest.param(
            CHAT,
            replace(TWENTIETH, price_per_month=yuan(2000, 3100)),
            Remark("not_cheaper", "it is not cheaper than the present card"),
            id="a range that is dearer in the middle",
        ),
    ],
)
def test_a_slice_is_refused_with_code_and_sentence(
    profile: UsageProfile, offer: SliceOffer, refusal: Remark
) -> None:
    candidate = rented_slice(ask(profile), offer)

    assert not candidate.fits
    assert refusal in candidate.refusals


def test_a_slice_of_unknown_size_and_price_names_both_and_guesses_neither() -> None:
    candidate = rented_slice(ask(), TENTH)

    assert [remark.code for remark in candidate.refusals] == [
        "tier_memory_unknown",
        "price_unknown",
    ]
    assert candidate.price_per_month is None
    assert candidate.savings == ()
    assert candidate.break_even_replicas is None


@pytest.mark.parametrize(
    ("mechanism", "policy", "fits"),
    [
        pytest.param(Mechanism.TIME_SLICE, SOFT, True, id="soft is asked, soft is given"),
        pytest.param(Mechanism.TIME_SLICE, DEFAULT_POLICY, False, id="VM is asked, soft given"),
        pytest.param(Mechanism.VGPU, DEFAULT_POLICY, True, id="VM is asked, VM given"),
        pytest.param(Mechanism.VGPU, HARD, False, id="hard is asked, VM given"),
        pytest.param(Mechanism.MIG, HARD, True, id="hard is asked, hard given"),
    ],
)
def test_isolation_must_be_what_is_required_or_better(
    mechanism: Mechanism, policy: Policy, fits: bool
) -> None:
    offer = replace(TWENTIETH, mechanism=mechanism)

    assert rented_slice(ask(policy=policy), offer).fits is fits


def test_only_a_vgpu_has_a_scheduler_to_ask_about() -> None:
    candidate = rented_slice(ask(), replace(TWENTIETH, mechanism=Mechanism.MIG))

    assert FIXED_SHARE not in candidate.notes


def test_a_slice_with_a_fixed_month_has_no_break_even() -> None:
    offer = replace(TWENTIETH, billing=Billing.FIXED)

    assert rented_slice(ask(), offer).break_even_replicas is None


def test_a_card_with_a_price_range_has_no_one_break_even() -> None:
    assert rented_slice(ask(ON_H100), TWENTIETH).break_even_replicas is None


@pytest.mark.parametrize(
    ("profile", "target", "checks"),
    [
        pytest.param(
            CHAT,
            "T4",
            (Remark("older_architecture", "check: older architecture, no BF16"),),
            id="Ampere to Turing",
        ),
        pytest.param(
            ON_H100,
            "T4",
            (Remark("older_architecture", "check: older architecture, no BF16 or FP8"),),
            id="Hopper to Turing",
        ),
        pytest.param(
            ON_H100,
            "A100 40GB",
            (Remark("older_architecture", "check: older architecture, no FP8"),),
            id="Hopper to Ampere",
        ),
        pytest.param(
            CHAT,
            "RTX 3090",
            (
                Remark(
                    "consumer_card",
                    "check: consumer card, no ECC on its memory; see its licence",
                ),
            ),
            id="a consumer card of the same architecture",
        ),
        pytest.param(
            CHAT,
            "RTX 2080 Ti",
            (
                Remark("older_architecture", "check: older architecture, no BF16"),
                Remark(
                    "consumer_card",
                    "check: consumer card, no ECC on its memory; see its licence",
                ),
            ),
            id="an older consumer card",
        ),
    ],
)
def test_a_move_to_another_card_names_what_it_may_break(
    profile: UsageProfile, target: str, checks: tuple[Remark, ...]
) -> None:
    found = whole(ask(profile), CARDS[target, "cloud"]).checks

    assert tuple(check for check in found if check.code != "paid_twice") == checks


def test_a_slice_beside_a_server_is_paid_on_top_until_the_server_ends() -> None:
    (check,) = [
        check
        for check in whole(ask(ON_H100), CARDS["T4", "cloud"]).checks
        if check.code == "paid_twice"
    ]

    assert check.text == "check: costs 850.00 CNY a month more until the whole server ends"


def test_an_older_card_that_loses_nothing_is_still_to_be_checked() -> None:
    on_turing = usage_profile_of(card_name="Quadro RTX 6000", memory_total_gib=24)
    price = replace(T4, nvml_name_regex="Quadro RTX 6000", gpu=facts("Quadro RTX 6000"))
    volta = CARDS["V100S 32GB", "cloud"]

    assert whole(ask(on_turing, price), volta).checks == (
        Remark("older_architecture", "check: older architecture"),
    )


def test_a_consumer_card_is_no_new_risk_to_a_consumer_card() -> None:
    on_3090 = usage_profile_of(card_name="NVIDIA GeForce RTX 3090", memory_total_gib=24)

    assert whole(ask(on_3090), CARDS["RTX 3080", "cloud"]).checks == ()


def test_a_whole_card_says_what_it_saves_and_the_way_there_and_back() -> None:
    candidate = whole(ask(), T4)

    assert candidate.fits
    assert (candidate.kind, candidate.name) == (Kind.WHOLE_CARD, "T4 whole")
    assert candidate.isolation == Isolation.HARD
    saving = candidate.saving("month")
    assert saving is not None
    assert saving.per_month == yuan(1650)
    assert candidate.steps == (
        "rent T4, deploy the workload there, move its traffic, end the card",
    )


def test_the_same_model_in_another_channel_is_no_candidate() -> None:
    assert whole_card(ask(), CARDS["A100 40GB", "custom"]) is None


def test_a_card_without_hardware_facts_is_no_candidate() -> None:
    assert whole_card(ask(), replace(T4, gpu=None)) is None


@pytest.mark.parametrize(
    ("present", "notes", "cash"),
    [
        pytest.param(CARDS["A100 40GB", "cloud"], (), Cash.NOW, id="rented alone"),
        pytest.param(
            CARDS["4 x A100 40GB + 100G RoCEv2", "server"],
            (
                Remark(
                    "server",
                    "the card is one of 4 of a server: money is saved when the whole server is "
                    "given back",
                ),
            ),
            Cash.WHEN_SERVER_ENDS,
            id="of a rented server",
        ),
        pytest.param(
            H100_BOUGHT,
            (
                Remark(
                    "server",
                    "the card is one of 8 of a server: money is saved when the whole server is "
                    "sold",
                ),
            ),
            Cash.WHEN_SERVER_ENDS,
            id="of a bought server",
        ),
        pytest.param(
            replace(CARDS["A100 40GB", "cloud"], is_owned=True),
            (Remark("server", "the card is bought: money is saved when it is sold"),),
            Cash.WHEN_SERVER_ENDS,
            id="bought alone",
        ),
    ],
)
@pytest.mark.parametrize(
    "act",
    [
        pytest.param(lambda question: whole(question, T4), id="a cheaper card"),
        pytest.param(lambda question: rented_slice(question, TWENTIETH), id="a slice"),
        pytest.param(give_back, id="giving back"),
    ],
)
def test_money_is_saved_when_what_is_paid_for_really_ends(
    act: Callable[[Question], Candidate], present: CardOffer, notes: tuple[Remark, ...], cash: Cash
) -> None:
    profile = usage_profile_of(card_name=present.gpu.name) if present.gpu else CHAT

    candidate = act(ask(profile, present))

    assert tuple(note for note in candidate.notes if note.code == "server") == notes
    assert candidate.cash is cash


def test_giving_back_saves_the_whole_price() -> None:
    candidate = give_back(ask(replace(CHAT, idle_class=IdleClass.NEVER_USED)))

    assert candidate.fits
    assert candidate.checks == ()
    assert candidate.price_per_month == yuan(0)
    saving = candidate.saving("year")
    assert saving is not None
    assert (saving.per_month, saving.per_year) == (yuan(2000), yuan(24_000))


def test_a_parked_model_is_asked_about_before_its_card_ends() -> None:
    candidate = give_back(ask(replace(CHAT, idle_class=IdleClass.PARKED)))

    assert candidate.checks == (
        Remark("parked", "check: 3.40 GiB are loaded; ask its owner before ending the card"),
    )


def test_staying_costs_what_it_costs_now() -> None:
    candidate = stay(ask(ON_H100))

    assert candidate.fits
    assert candidate.price_per_month == yuan(10_000, 15_000)
    assert candidate.savings == ()
    assert candidate.cash is Cash.NONE


def test_cutting_the_card_itself_frees_capacity_and_no_cash() -> None:
    smallest = next(iter(sorted(mig_slices(ask()), key=lambda one: one.memory_usable_bytes or 0)))

    assert (smallest.kind, smallest.name) == (Kind.MIG, "MIG 1g.5gb")
    assert smallest.fits
    assert smallest.price_per_month == yuan(2500)
    assert smallest.savings == ()
    assert smallest.cash is Cash.CAPACITY_ONLY
    assert smallest.freed_per_month == yuan("2187.5")
    assert smallest.isolation == Isolation.HARD
    assert smallest.notes == (
        Remark(
            "capacity_only",
            "frees 7 of 8 memory slices for others; the card itself stays paid",
        ),
    )
    assert smallest.steps[-1] == "ask for it in the pod: nvidia.com/mig-1g.5gb: 1"
    assert smallest.way_back == (
        "delete the instances and switch MIG off: nvidia-smi -i <gpu> -mig 0"
    )


def test_mig_offers_plain_profiles_smaller_than_the_card() -> None:
    names = [candidate.name for candidate in mig_slices(ask())]

    assert names == [
        "MIG 1g.5gb",
        "MIG 1g.10gb",
        "MIG 2g.10gb",
        "MIG 3g.20gb",
        "MIG 4g.20gb",
    ]


def test_mig_slices_have_their_own_multiprocessors() -> None:
    fits = {candidate.name: candidate.fits for candidate in mig_slices(ask(TWIN))}
    seventh = next(iter(mig_slices(ask(TWIN))))

    assert seventh.compute is not None
    assert seventh.compute.available_ratio == pytest.approx(14 / 108)
    assert not fits["MIG 1g.5gb"]
    assert fits["MIG 2g.10gb"]


def test_a_card_without_mig_cannot_be_cut() -> None:
    on_t4 = usage_profile_of(card_name="Tesla T4", memory_total_gib=15)

    assert list(mig_slices(ask(on_t4))) == []


@pytest.mark.parametrize(
    ("target", "present", "share"),
    [
        pytest.param(A100_40GB, A100_40GB, Fraction(1), id="the same card"),
        pytest.param("NVIDIA A100-SXM4-80GB", A100_40GB, Fraction(1), id="more bandwidth"),
        pytest.param("Tesla T4", A100_40GB, Fraction(320, 1555), id="bandwidth is the less"),
        pytest.param("NVIDIA A16", "NVIDIA A40", Fraction(10, 84), id="processors are the less"),
        pytest.param(H100_80GB, A100_40GB, Fraction(1), id="a newer card earns nothing"),
        pytest.param("NVIDIA L2", A100_40GB, None, id="processors not known"),
        pytest.param(A100_40GB, "NVIDIA GB300", None, id="present processors not known"),
    ],
)
def test_compute_is_compared_by_the_lesser_of_processors_and_bandwidth(
    target: str, present: str, share: Fraction | None
) -> None:
    assert relative_compute(Fraction(1), facts(target), facts(present)) == share


def test_bandwidth_that_nobody_knows_compares_with_nothing() -> None:
    unknown = replace(facts("Tesla T4"), bandwidth_bytes_per_second=None)

    assert relative_compute(Fraction(1), unknown, facts(A100_40GB)) is None


@pytest.mark.parametrize(
    ("idle_class", "kinds"),
    [
        pytest.param(
            IdleClass.UNALLOCATED, {Kind.STAY, Kind.GIVE_BACK}, id="nothing to serve elsewhere"
        ),
        pytest.param(IdleClass.NEVER_USED, set(Kind), id="never used"),
        pytest.param(IdleClass.PARKED, set(Kind), id="parked"),
        pytest.param(IdleClass.UNDERUSED, set(Kind) - {Kind.GIVE_BACK}, id="underused"),
        pytest.param(IdleClass.UNKNOWN, set(Kind) - {Kind.GIVE_BACK}, id="unknown is not idle"),
        pytest.param(IdleClass.OK, set(Kind) - {Kind.GIVE_BACK}, id="well used"),
    ],
)
def test_the_idle_class_decides_which_kinds_are_offered(
    idle_class: IdleClass, kinds: set[Kind]
) -> None:
    candidates = all_candidates(ask(replace(CHAT, idle_class=idle_class)))

    assert {candidate.kind for candidate in candidates} == kinds


def test_cards_of_servers_and_bought_cards_cannot_be_rented_alone() -> None:
    bought_alone = replace(T4, name="T4 bought", channel="owned", is_owned=True)
    book = replace(BOOK, cards=(*BOOK.cards, bought_alone))

    names = [candidate.name for candidate in all_candidates(ask(book=book))]

    assert [name for name in names if "x RTX 3090" in name or "bought" in name] == []
    assert "T4 whole" in names

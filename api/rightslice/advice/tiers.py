"""The candidates of each kind: rentable slices, MIG profiles, cheaper cards, give back, stay."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction

from rightslice.advice.candidate import (
    Candidate,
    Cash,
    Kind,
    Remark,
    savings_at_terms,
)
from rightslice.advice.needs import ComputeFit, Needs, compute_fit
from rightslice.advice.policy import ISOLATION_ORDER, Isolation, Policy
from rightslice.catalogue.elastic import break_even_replicas
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import (
    Billing,
    CardOffer,
    Mechanism,
    PriceBook,
    SliceOffer,
)
from rightslice.facts.cards import CardFacts
from rightslice.facts.data import BYTES_PER_GIB, BYTES_PER_MIB
from rightslice.facts.mig import find_mig_card
from rightslice.profile.profile import (
    CONTEXT_ONLY_BYTES,
    NO_COMPUTE_RATIO,
    IdleClass,
    UsageProfile,
)

ISOLATION_OF = {
    Mechanism.VGPU: Isolation.VM,
    Mechanism.MIG: Isolation.HARD,
    Mechanism.TIME_SLICE: Isolation.SOFT,
}
# +me and the like differ in media engines only; a model server asks for none.
PLAIN_MIG_KINDS = frozenset(("base", "double_memory"))


@dataclass(frozen=True, slots=True)
class Question:
    """Everything that the candidates of one card are judged by."""

    profile: UsageProfile
    needs: Needs
    present: CardOffer
    present_price: Money
    card: CardFacts
    book: PriceBook
    policy: Policy


def all_candidates(question: Question) -> Iterator[Candidate]:
    """Give every candidate, fitting or not, in no order."""
    yield stay(question)
    if question.profile.idle_class in (
        IdleClass.UNALLOCATED,
        IdleClass.NEVER_USED,
        IdleClass.PARKED,
    ):
        yield give_back(question)
    if question.profile.idle_class is IdleClass.UNALLOCATED:
        return  # there is nothing to serve elsewhere
    for offer in question.book.slices:
        yield rented_slice(question, offer)
    yield from mig_slices(question)
    for card_offer in question.book.cards:
        is_rentable_alone = card_offer.card_count == 1 and not card_offer.is_owned
        if card_offer is not question.present and is_rentable_alone:
            candidate = whole_card(question, card_offer)
            if candidate is not None:
                yield candidate


def gib(size_bytes: float) -> str:
    """Write bytes for people."""
    return f"{size_bytes / BYTES_PER_GIB:.2f} GiB"


def percent(ratio: float) -> str:
    """Write a ratio for people."""
    return f"{100 * ratio:.1f} %"


def stay(question: Question) -> Candidate:
    """Keep the card."""
    return Candidate(
        Kind.STAY,
        f"{question.present.name} whole",
        fits=True,
        price_per_month=question.present_price,
        isolation=Isolation.HARD,
    )


def give_back(question: Question) -> Candidate:
    """End the rental of a card that nobody uses."""
    profile = question.profile
    checks = []
    if profile.idle_class is IdleClass.UNALLOCATED and _looks_used(profile):
        checks.append(
            Remark("unrequested_use", "check: it is in use, though nobody is known to hold it")
        )
    if profile.idle_class is IdleClass.PARKED:
        held = gib(profile.memory_used_peak_bytes or 0)
        checks.append(
            Remark("parked", f"check: {held} are loaded; ask its owner before ending the card")
        )
    price = question.present_price
    zero = Money.exactly(0, price.currency)
    discounts = question.present.discounts
    return Candidate(
        Kind.GIVE_BACK,
        "give back",
        fits=True,
        checks=tuple(checks),
        notes=_leaving_notes(question.present),
        price_per_month=zero,
        savings=savings_at_terms(price, discounts, zero, discounts),
        cash=_cash_of_leaving(question.present),
        steps=("drain the card and end its rental",),
        way_back="rent the card again",
    )


def _looks_used(profile: UsageProfile) -> bool:
    """Tell whether a card that nobody holds has more than a context in memory, or works."""
    held_bytes = profile.memory_used_peak_bytes or 0
    return held_bytes > CONTEXT_ONLY_BYTES or (profile.busy_ratio or 0) > NO_COMPUTE_RATIO


def _cash_of_leaving(present: CardOffer) -> Cash:
    return Cash.NOW if present.card_count == 1 and not present.is_owned else Cash.WHEN_SERVER_ENDS


def _leaving_notes(present: CardOffer) -> tuple[Remark, ...]:
    if _cash_of_leaving(present) is Cash.NOW:
        return ()
    if present.card_count == 1:
        return (Remark("server", "the card is bought: money is saved when it is sold"),)
    end = "sold" if present.is_owned else "given back"
    return (
        Remark(
            "server",
            f"the card is one of {present.card_count} of a server: money is saved when the whole "
            f"server is {end}",
        ),
    )


def relative_compute(share: Fraction, target: CardFacts, present: CardFacts) -> Fraction | None:
    """Express a share of `target` as a share of `present`.

    The smaller of the ratios of multiprocessors and of memory bandwidth: without a measured
    factor between two architectures neither may be assumed to matter. None where a figure is not
    known. Never above the share that the same card would give, so a newer card earns nothing.
    """
    if target.name == present.name:
        return share
    if not (target.sm_count and present.sm_count):
        return None
    if not (target.bandwidth_bytes_per_second and present.bandwidth_bytes_per_second):
        return None
    ratios = (
        Fraction(1),
        Fraction(target.sm_count, present.sm_count),
        Fraction(int(target.bandwidth_bytes_per_second), int(present.bandwidth_bytes_per_second)),
    )
    return share * min(ratios)


def _fit(
    question: Question, memory_bytes: int | None, compute_share: Fraction | None
) -> tuple[tuple[Remark, ...], ComputeFit | None, int | None]:
    """Judge memory and compute: (refusals, the compute decision, spare bytes)."""
    needs, policy = question.needs, question.policy
    refusals, spare_bytes = [], None
    if needs.memory_bytes is None:
        refusals.append(Remark("memory_unknown", "the memory need is not known"))
    elif memory_bytes is None:
        refusals.append(Remark("tier_memory_unknown", "the tier's memory is not known"))
    else:
        spare_bytes = memory_bytes - needs.memory_bytes
        if spare_bytes < 0:
            refusals.append(
                Remark(
                    "memory",
                    f"needs {gib(needs.memory_bytes)} of memory, it has {gib(memory_bytes)}",
                )
            )
    if compute_share is None:
        refusals.append(Remark("tier_compute_unknown", "the tier's compute is not known"))
        return tuple(refusals), None, spare_bytes
    fit = compute_fit(question.profile, compute_share, policy)
    if not fit.fits:
        refusals.append(_compute_refusal(needs, fit))
    return tuple(refusals), fit, spare_bytes


def _compute_refusal(needs: Needs, fit: ComputeFit) -> Remark:
    if needs.compute_quantile_ratio is None:
        return Remark("compute_unknown", "the compute need is not known")
    if not fit.mean_fits and fit.mean_ratio is not None:
        return Remark(
            "compute_mean",
            f"its mean demand, up to {percent(fit.mean_ratio)} of the card's compute, is above "
            f"the {percent(fit.available_ratio)} it gives: work would pile up",
        )
    need = needs.compute_quantile_ratio * needs.compute_factor
    text = (
        f"needs {percent(need)} of the card's compute (p{100 * needs.compute_rank:.0f} "
        f"{needs.compute_quantile_ratio:.3f} x {needs.compute_factor:g}), "
        f"it gives {percent(fit.available_ratio)}"
    )
    if fit.is_borderline:
        text += "; borderline: the histogram is too coarse to tell"
    return Remark("compute", text)


def _isolation_refusals(isolation: Isolation, policy: Policy) -> tuple[Remark, ...]:
    required = policy.required_isolation
    if ISOLATION_ORDER.index(isolation) >= ISOLATION_ORDER.index(required):
        return ()
    return (Remark("isolation", f"isolation is {isolation}, {required} is required"),)


def _architecture_checks(target: CardFacts, present: CardFacts) -> tuple[Remark, ...]:
    """Tell what a move to another card may break."""
    checks = []
    if target.is_older_than(present):
        lost = [
            name
            for name, had, has in (
                ("BF16", present.has_bf16, target.has_bf16),
                ("FP8", present.has_fp8, target.has_fp8),
            )
            if had and not has
        ]
        missing = f", no {' or '.join(lost)}" if lost else ""
        checks.append(Remark("older_architecture", f"check: older architecture{missing}"))
    if target.is_consumer and not present.is_consumer:
        checks.append(
            Remark("consumer_card", "check: consumer card, no ECC on its memory; see its licence")
        )
    return tuple(checks)


def rented_slice(question: Question, offer: SliceOffer) -> Candidate:
    """Rent a slice that somebody else has cut."""
    usable_bytes, notes = _guest_memory(offer)
    share = relative_compute(offer.compute_ratio, offer.gpu, question.card)
    refusals, fit, spare_bytes = _fit(question, usable_bytes, share)
    isolation = ISOLATION_OF[offer.mechanism]
    refusals += _isolation_refusals(isolation, question.policy)
    if offer.vgpu_type is not None and not offer.vgpu_type.has_cuda:
        refusals += (Remark("no_cuda", f"{offer.vgpu_type.name} cannot run CUDA"),)
    if offer.mechanism is Mechanism.VGPU:
        notes += (
            Remark(
                "fixed_share",
                f"{percent(float(offer.compute_ratio))} of compute is guaranteed only under the "
                "fixed-share scheduler; ask the seller",
            ),
        )
    if spare_bytes is not None and spare_bytes >= 0 and _is_unmeasured(offer):
        kind = offer.vgpu_type.name if offer.vgpu_type else offer.name
        notes = (
            Remark(
                "guest_memory_unmeasured",
                f"guest memory of {kind} not measured yet: "
                f"{spare_bytes / BYTES_PER_MIB:.0f} MiB to spare",
            ),
            *notes,
        )
    candidate = Candidate(
        Kind.RENT_SLICE,
        offer.name,
        fits=not refusals,
        refusals=refusals,
        checks=_architecture_checks(offer.gpu, question.card),
        notes=notes + _leaving_notes(question.present),
        memory_usable_bytes=usable_bytes,
        memory_spare_bytes=spare_bytes,
        compute=fit,
        isolation=isolation,
        steps=(f"rent {offer.name}, deploy the workload there, move its traffic, end the card",),
        way_back=f"deploy the workload on {question.present.name} whole again",
    )
    candidate = _priced(question, candidate, offer.price_per_month, offer.discounts)
    if offer.billing is Billing.USAGE and offer.price_per_month is not None:
        even = break_even_replicas(question.present_price, offer.price_per_month)
        candidate = replace(candidate, break_even_replicas=float(even) if even else None)
    return candidate


def _is_unmeasured(offer: SliceOffer) -> bool:
    return offer.vgpu_type is not None and offer.vgpu_type.guest_memory_bytes is None


def _guest_memory(offer: SliceOffer) -> tuple[int | None, tuple[Remark, ...]]:
    """Give the memory that a guest can use, which is less than what is sold."""
    if offer.vgpu_type is None or offer.vgpu_type.guest_memory_bytes is None:
        return offer.memory_bytes, ()
    guest_bytes = offer.vgpu_type.guest_memory_bytes
    sold = gib(offer.memory_bytes or offer.vgpu_type.memory_bytes)
    return guest_bytes, (Remark("guest_memory", f"the guest sees {gib(guest_bytes)} of {sold}"),)


def _priced(
    question: Question,
    candidate: Candidate,
    price: Money | None,
    discounts: Mapping[str, Decimal],
) -> Candidate:
    """Add what a candidate costs and saves; a candidate without a price cannot be chosen."""
    if price is None:
        unknown = Remark("price_unknown", "its price is not known")
        return replace(candidate, fits=False, refusals=(*candidate.refusals, unknown))
    savings = savings_at_terms(
        question.present_price,
        question.present.discounts,
        price,
        discounts,
    )
    if price.middle >= question.present_price.middle:
        dearer = Remark("not_cheaper", "it is not cheaper than the present card")
        candidate = replace(candidate, fits=False, refusals=(*candidate.refusals, dearer))
    cash = _cash_of_leaving(question.present)
    if cash is Cash.WHEN_SERVER_ENDS:
        # Until then both are paid.
        shown = price.rounded()
        more = f"{shown.low:,}" if not shown.is_range else f"{shown.low:,} to {shown.high:,}"
        paid_twice = Remark(
            "paid_twice",
            f"check: costs {more} {price.currency} a month more until the whole server ends",
        )
        candidate = replace(candidate, checks=(*candidate.checks, paid_twice))
    return replace(candidate, price_per_month=price, savings=savings, cash=cash)


def mig_slices(question: Question) -> Iterator[Candidate]:
    """Cut the card itself: frees capacity on it, saves money only when a card is emptied."""
    layout = find_mig_card(question.card.mig_id) if question.card.mig_id else None
    if layout is None or layout.placement_unit_count is None:
        return
    for mig_profile in layout.profiles:
        if mig_profile.kind not in PLAIN_MIG_KINDS or mig_profile.memory_slice_count is None:
            continue
        used = Fraction(mig_profile.memory_slice_count, layout.placement_unit_count)
        if used >= 1:
            continue  # the whole card again, only smaller
        share = None
        if mig_profile.sm_count is not None and question.card.sm_count is not None:
            share = Fraction(mig_profile.sm_count, question.card.sm_count)
        refusals, fit, spare_bytes = _fit(question, mig_profile.memory_bytes, share)
        yield Candidate(
            Kind.MIG,
            f"MIG {mig_profile.name}",
            fits=not refusals,
            refusals=refusals,
            notes=(
                Remark(
                    "capacity_only",
                    f"frees {layout.placement_unit_count - mig_profile.memory_slice_count} of "
                    f"{layout.placement_unit_count} memory slices for others; the card itself "
                    "stays paid",
                ),
            ),
            memory_usable_bytes=mig_profile.memory_bytes,
            memory_spare_bytes=spare_bytes,
            compute=fit,
            price_per_month=question.present_price,
            cash=Cash.CAPACITY_ONLY,
            freed_per_month=question.present_price.times(1 - used),
            isolation=Isolation.HARD,
            steps=(
                "drain the card and switch MIG on: nvidia-smi -i <gpu> -mig 1",
                f"create the instance: nvidia-smi mig -i <gpu> -cgi {mig_profile.name} -C",
                f"ask for it in the pod: {mig_profile.resource_name}: 1",
            ),
            way_back="delete the instances and switch MIG off: nvidia-smi -i <gpu> -mig 0",
        )


def whole_card(question: Question, offer: CardOffer) -> Candidate | None:
    """Rent a cheaper whole card; None for the same model in another channel."""
    if offer.gpu is None:
        return None
    if offer.matches(question.profile.card_name):
        return None
    share = relative_compute(Fraction(1), offer.gpu, question.card)
    refusals, fit, spare_bytes = _fit(question, offer.gpu.memory_bytes, share)
    candidate = Candidate(
        Kind.WHOLE_CARD,
        f"{offer.name} whole",
        fits=not refusals,
        refusals=refusals,
        checks=_architecture_checks(offer.gpu, question.card),
        notes=_leaving_notes(question.present),
        memory_usable_bytes=offer.gpu.memory_bytes,
        memory_spare_bytes=spare_bytes,
        compute=fit,
        isolation=Isolation.HARD,
        steps=(f"rent {offer.name}, deploy the workload there, move its traffic, end the card",),
        way_back=f"deploy the workload on {question.present.name} whole again",
    )
    return _priced(question, candidate, offer.price_per_month, offer.discounts)

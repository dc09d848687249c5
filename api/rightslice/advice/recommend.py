"""The answer for one card: a headline and its alternatives, or why there is none."""

import hashlib
from dataclasses import dataclass
from datetime import datetime, timedelta

from rightslice.advice.candidate import Candidate, Kind, Remark
from rightslice.advice.needs import Needs, needs_of
from rightslice.advice.policy import Policy
from rightslice.advice.tiers import Question, all_candidates, gib, percent
from rightslice.catalogue.price_book import TERM_MONTH, CardOffer, PriceBook
from rightslice.facts.cards import find_card
from rightslice.profile.flags import FLAG_MIG, FLAG_STUCK_COUNTER
from rightslice.profile.profile import IdleClass, Signal, UsageProfile


@dataclass(frozen=True, slots=True)
class Recommendation:
    """What to do with one card. `headline` is the cheapest that fits without a new risk.

    `candidates` are all of them, the fitting first, cheapest first. When `headline` is to stay,
    `reason` says why nothing cheaper does.
    """

    id: str
    profile: UsageProfile
    needs: Needs
    present: CardOffer
    headline: Candidate
    candidates: tuple[Candidate, ...]
    label: str

    @property
    def above_the_fold(self) -> tuple[Candidate, ...]:
        """Fitting candidates with a check, that would cost less than the headline."""
        return tuple(
            candidate
            for candidate in self.candidates
            if candidate.fits and candidate.checks and _cost(candidate) < _cost(self.headline)
        )


@dataclass(frozen=True, slots=True)
class NoAdvice:
    """No advice is an answer: the reason's code, its sentence with the numbers, the profile.

    `present` is what the card costs; None where the price book does not know it.
    """

    profile: UsageProfile
    reason: Remark
    present: CardOffer | None


Answer = Recommendation | NoAdvice
GONE = "gone"


def _cost(candidate: Candidate) -> tuple[float, float]:
    """Order candidates by what is paid, then by what they free on a card that stays paid."""
    price, freed = candidate.price_per_month, candidate.freed_per_month
    return (
        float(price.middle) if price else float("inf"),
        -float(freed.middle) if freed else 0.0,
    )


def recommend(
    profile: UsageProfile,
    book: PriceBook,
    policy: Policy,
    now: datetime,
    channel: str | None = None,
) -> Answer:
    """Answer for one card. `now` is the end of the window that the profile was made of."""
    present = book.card_offer(profile.card_name, channel)
    refusal = _data_refusal(profile, policy, now)
    if refusal is not None:
        return NoAdvice(profile, refusal, present)
    question = _question(profile, book, policy, present)
    if isinstance(question, Remark):
        return NoAdvice(profile, question, present)
    candidates = sorted(all_candidates(question), key=lambda one: (not one.fits, *_cost(one)))
    headline = next(candidate for candidate in candidates if candidate.leads_without_risk)
    return Recommendation(
        id=recommendation_id(profile.uuid, headline.name),
        profile=profile,
        needs=question.needs,
        present=question.present,
        headline=headline,
        candidates=tuple(candidates),
        label=f"measured over {profile.observed_hours / 24:.1f} days, "
        f"{_signal_words(profile.signal)}",
    )


def recommendation_id(uuid: str, headline: str) -> str:
    """Name an advice so that the same advice on the same card keeps its name."""
    return hashlib.sha256(f"{uuid}\0{headline}".encode()).hexdigest()[:16]


def _signal_words(signal: Signal) -> str:
    return {
        Signal.SM_ACTIVE: "compute by SM activity",
        Signal.GR_ENGINE_ACTIVE: "compute by engine activity, an upper bound of SM activity",
        Signal.BUSY: "compute by the busy gauge alone, an upper bound of SM activity",
        Signal.NONE: "compute not measured",
    }[signal]


def _data_refusal(profile: UsageProfile, policy: Policy, now: datetime) -> Remark | None:
    """Say why the data carries no advice; None where it does."""
    if not profile.observed_hours:
        return Remark("unobserved", "no memory reading in the window: unknown, not idle")
    silent = now - profile.end
    if silent > timedelta(hours=policy.gone_after_hours):
        return Remark(GONE, f"not seen since {profile.end:%Y-%m-%d %H:%M} UTC; it may have left")
    if profile.observed_hours < policy.least_observed_hours:
        return Remark(
            "too_little_history",
            f"{profile.observed_hours:.1f} h observed, {policy.least_observed_hours:g} h needed",
        )
    if profile.coverage_ratio < policy.least_coverage_ratio:
        return Remark(
            "low_coverage",
            f"{percent(profile.coverage_ratio)} of its time observed, "
            f"{percent(policy.least_coverage_ratio)} needed",
        )
    if profile.most_cards > 1:
        return Remark(
            "several_cards",
            f"a workload on it holds {profile.most_cards} cards at once: never cut a card of "
            "such a job",
        )
    if profile.is_shared:
        return Remark(
            "shared_card",
            "several workloads share it and the readings are of the whole card: what each needs "
            "is not known",
        )
    if FLAG_MIG in profile.quality:
        return Remark(
            "mig_card",
            "it is cut by MIG and its instances are used one by one; advice on instances is not "
            "given yet",
        )
    if FLAG_STUCK_COUNTER in profile.quality and profile.signal is not Signal.SM_ACTIVE:
        return Remark(
            "stuck_counter",
            f"SM activity read 0 while the card was busy {percent(profile.busy_ratio or 0)} of "
            "the time: the profiling counter is broken",
        )
    if profile.holder_coverage_ratio < policy.least_coverage_ratio:
        return Remark(
            "holders_unknown",
            f"who holds it is known for {percent(profile.holder_coverage_ratio)} of its time, "
            f"{percent(policy.least_coverage_ratio)} needed",
        )
    return None


def _question(
    profile: UsageProfile, book: PriceBook, policy: Policy, present: CardOffer | None
) -> Question | Remark:
    """Gather what candidates are judged by, or say what is missing."""
    card = find_card(profile.card_name, profile.memory_total_bytes)
    if card is None:
        size = gib(profile.memory_total_bytes) if profile.memory_total_bytes else "unknown memory"
        return Remark(
            "unknown_card",
            f"{profile.card_name or 'a card without a name'} with {size} is no "
            "card in the hardware facts",
        )
    if present is None or present.price_per_month is None:
        return Remark(
            "no_price",
            f"the price book has no price for {profile.card_name} in that channel; add it with "
            "--prices",
        )
    needs = needs_of(profile, policy)
    if profile.idle_class is not IdleClass.UNALLOCATED:
        if profile.memory_is_pre_allocated:
            return Remark(
                "pre_allocated",
                f"memory stands flat at {gib(needs.memory_peak_bytes or 0)}: an engine reserved "
                "it when it started, what it needs of it cannot be seen from outside",
            )
        if profile.signal is Signal.NONE:
            return Remark("compute_unmeasured", "held, but its compute is not measured")
        if profile.compute_coverage_ratio < policy.least_coverage_ratio:
            return Remark(
                "low_compute_coverage",
                f"its compute was observed {percent(profile.compute_coverage_ratio)} of its time, "
                f"{percent(policy.least_coverage_ratio)} needed",
            )
    return Question(profile, needs, present, present.price_per_month, card, book, policy)


def saves(answer: Answer) -> bool:
    """Tell whether an answer asks somebody to do something."""
    return isinstance(answer, Recommendation) and answer.headline.kind is not Kind.STAY


def urgency(answer: Answer) -> tuple[float, float, bool]:
    """Order answers: most cash saved a month first, then most capacity freed, then no advice."""
    if not isinstance(answer, Recommendation):
        return (0.0, 0.0, True)
    saving, freed = answer.headline.saving(TERM_MONTH), answer.headline.freed_per_month
    return (
        -float(saving.per_month.low) if saving else 0.0,
        -float(freed.low) if freed else 0.0,
        False,
    )

"""An answer as a document: what JSON, CSV, the table and the page are all made from."""

from collections.abc import Iterable
from dataclasses import dataclass

from rightslice.advice.candidate import Candidate, Cash, Kind, Remark
from rightslice.advice.needs import Needs
from rightslice.advice.recommend import GONE, Answer, NoAdvice, Recommendation
from rightslice.catalogue.money import Money
from rightslice.catalogue.price_book import TERM_MONTH
from rightslice.profile.profile import UsageProfile


@dataclass(frozen=True, slots=True)
class MoneyDocument:
    """Amounts are decimal text, so that no reader makes floats of them; low = high if exact."""

    low: str
    high: str
    currency: str
    is_estimate: bool


@dataclass(frozen=True, slots=True)
class RemarkDocument:
    """A stable code and its sentence."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class SavingDocument:
    """What is saved at one term."""

    term: str
    per_month: MoneyDocument
    per_year: MoneyDocument


@dataclass(frozen=True, slots=True)
class ComputeDocument:
    """How the compute fit was decided: by the share of time at or below the edge."""

    available_ratio: float
    edge_ratio: float | None
    share_of_time_ratio: float | None
    minutes_above_per_day: float | None
    is_borderline: bool
    mean_ratio: float | None


@dataclass(frozen=True, slots=True)
class CandidateDocument:
    """One way to serve the workload."""

    kind: str
    name: str
    fits: bool
    refusals: list[RemarkDocument]
    checks: list[RemarkDocument]
    notes: list[RemarkDocument]
    price_per_month: MoneyDocument | None
    savings: list[SavingDocument]
    cash: str
    freed_per_month: MoneyDocument | None
    isolation: str
    memory_usable_bytes: int | None
    memory_spare_bytes: int | None
    compute: ComputeDocument | None
    break_even_replicas: float | None
    steps: list[str]
    way_back: str


@dataclass(frozen=True, slots=True)
class UsageDocument:
    """What was measured, and how much of the time.

    Quantiles are interpolated within a histogram bin; the p95's bin is given.
    """

    source: str
    start: str
    end: str
    observed_hours: float
    coverage_ratio: float
    holder_coverage_ratio: float
    compute_coverage_ratio: float
    memory_total_bytes: int | None
    memory_used_peak_bytes: int | None
    memory_is_pre_allocated: bool
    signal: str
    compute_p50_ratio: float | None
    compute_p95_ratio: float | None
    compute_p95_low_ratio: float | None
    compute_p95_high_ratio: float | None
    compute_p99_ratio: float | None
    busy_ratio: float | None
    allocated_ratio: float | None
    idle_class: str
    quality: list[str]


@dataclass(frozen=True, slots=True)
class NeedsDocument:
    """What the workload needs, and the numbers that it was worked out from."""

    memory_peak_bytes: int | None
    memory_headroom_ratio: float
    memory_bytes: int | None
    compute_rank: float
    compute_factor: float
    compute_quantile_ratio: float | None
    compute_quantile_low_ratio: float | None
    compute_quantile_high_ratio: float | None


@dataclass(frozen=True, slots=True)
class AnswerDocument:
    """The answer for one card; `reason` is given exactly when there is no headline."""

    id: str
    uuid: str
    node: str
    card: str
    workloads: list[str]
    usage: UsageDocument
    needs: NeedsDocument | None
    present_price_per_month: MoneyDocument | None
    headline: CandidateDocument | None
    above_the_fold: list[CandidateDocument]
    candidates: list[CandidateDocument]
    reason: RemarkDocument | None
    label: str


@dataclass(frozen=True, slots=True)
class SummaryDocument:
    """The fleet in one line. Cards without a known price are counted, never priced at 0.

    At month terms: `saving_per_month` is cash from the month a card ends, `server_saving_per_month`
    becomes cash only when every card of its server has ended, `freed_per_month` is capacity on
    cards that stay paid. `no_advice` counts cards by the code of the reason.
    """

    card_count: int
    advised_count: int
    saving_count: int
    unpriced_count: int
    price_per_month: MoneyDocument | None
    saving_per_month: MoneyDocument | None
    server_saving_per_month: MoneyDocument | None
    freed_per_month: MoneyDocument | None
    no_advice: dict[str, int]


def answer_document(answer: Answer) -> AnswerDocument:
    """Describe one answer."""
    profile = answer.profile
    advice = answer if isinstance(answer, Recommendation) else None
    return AnswerDocument(
        id=advice.id if advice else "",
        uuid=printable(profile.uuid),
        node=printable(profile.node),
        card=printable(profile.card_name),
        workloads=list(dict.fromkeys(printable(str(holder)) for holder in profile.holders)),
        usage=_usage(profile),
        needs=_needs(advice.needs) if advice else None,
        present_price_per_month=_money(answer.present.price_per_month) if answer.present else None,
        headline=_candidate(advice.headline) if advice else None,
        above_the_fold=[_candidate(one) for one in advice.above_the_fold] if advice else [],
        candidates=[_candidate(one) for one in advice.candidates] if advice else [],
        reason=_remark(answer.reason) if isinstance(answer, NoAdvice) else None,
        label=advice.label if advice else "",
    )


def printable(text: str) -> str:
    """Replace control characters: names come from outside, and a terminal obeys some of them."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def summary_document(answers: Iterable[Answer]) -> SummaryDocument:
    """Sum a fleet's answers; every card's one headline counts once."""
    answers = list(answers)
    advised = [answer for answer in answers if isinstance(answer, Recommendation)]
    reasons: dict[str, int] = {}
    for answer in answers:
        if isinstance(answer, NoAdvice):
            reasons[answer.reason.code] = reasons.get(answer.reason.code, 0) + 1
    acting = [advice for advice in advised if advice.headline.kind is not Kind.STAY]
    freed = [a.headline.freed_per_month for a in acting if a.headline.freed_per_month]
    # What has left is not paid for any more.
    there = [one for one in answers if not (isinstance(one, NoAdvice) and one.reason.code == GONE)]
    prices = [
        answer.present.price_per_month
        for answer in there
        if answer.present is not None and answer.present.price_per_month is not None
    ]
    return SummaryDocument(
        card_count=len(answers),
        advised_count=len(advised),
        saving_count=len(acting),
        unpriced_count=len(there) - len(prices),
        price_per_month=_sum(prices),
        saving_per_month=_sum(_savings(acting, Cash.NOW)),
        server_saving_per_month=_sum(_savings(acting, Cash.WHEN_SERVER_ENDS)),
        freed_per_month=_sum(freed),
        no_advice=dict(sorted(reasons.items())),
    )


def _savings(acting: list[Recommendation], cash: Cash) -> list[Money]:
    """List the headlines' monthly savings that become cash in one way."""
    return [
        saving.per_month
        for advice in acting
        if advice.headline.cash is cash
        and (saving := advice.headline.saving(TERM_MONTH)) is not None
    ]


def _sum(amounts: list[Money]) -> MoneyDocument | None:
    if not amounts:
        return None
    total = amounts[0]
    for amount in amounts[1:]:
        total += amount
    return _money(total)


def money_document(money: Money) -> MoneyDocument:
    """Describe an amount, rounded to cents."""
    shown = money.rounded()
    return MoneyDocument(str(shown.low), str(shown.high), shown.currency, shown.is_estimate)


def _money(money: Money | None) -> MoneyDocument | None:
    return None if money is None else money_document(money)


def _remark(remark: Remark) -> RemarkDocument:
    return RemarkDocument(remark.code, remark.text)


def _candidate(candidate: Candidate) -> CandidateDocument:
    fit = candidate.compute
    return CandidateDocument(
        kind=candidate.kind,
        name=candidate.name,
        fits=candidate.fits,
        refusals=[_remark(remark) for remark in candidate.refusals],
        checks=[_remark(remark) for remark in candidate.checks],
        notes=[_remark(remark) for remark in candidate.notes],
        price_per_month=_money(candidate.price_per_month),
        savings=[
            SavingDocument(s.term, money_document(s.per_month), money_document(s.per_year))
            for s in candidate.savings
        ],
        cash=candidate.cash,
        freed_per_month=_money(candidate.freed_per_month),
        isolation=candidate.isolation,
        memory_usable_bytes=candidate.memory_usable_bytes,
        memory_spare_bytes=candidate.memory_spare_bytes,
        compute=ComputeDocument(
            fit.available_ratio,
            fit.edge_ratio,
            fit.share_of_time_ratio,
            fit.minutes_above_per_day,
            fit.is_borderline,
            fit.mean_ratio,
        )
        if fit
        else None,
        break_even_replicas=candidate.break_even_replicas,
        steps=list(candidate.steps),
        way_back=candidate.way_back,
    )


def _needs(needs: Needs) -> NeedsDocument:
    return NeedsDocument(
        needs.memory_peak_bytes,
        needs.memory_headroom_ratio,
        needs.memory_bytes,
        needs.compute_rank,
        needs.compute_factor,
        needs.compute_quantile_ratio,
        needs.compute_quantile_low_ratio,
        needs.compute_quantile_high_ratio,
    )


def _usage(profile: UsageProfile) -> UsageDocument:
    unknown = (None, None, None)
    p95, p95_low, p95_high = profile.compute_quantile(0.95) or unknown

    return UsageDocument(
        source=profile.source,
        start=profile.start.isoformat(),
        end=profile.end.isoformat(),
        observed_hours=profile.observed_hours,
        coverage_ratio=profile.coverage_ratio,
        holder_coverage_ratio=profile.holder_coverage_ratio,
        compute_coverage_ratio=profile.compute_coverage_ratio,
        memory_total_bytes=profile.memory_total_bytes,
        memory_used_peak_bytes=profile.memory_used_peak_bytes,
        memory_is_pre_allocated=profile.memory_is_pre_allocated,
        signal=profile.signal,
        compute_p50_ratio=(profile.compute_quantile(0.50) or unknown)[0],
        compute_p95_ratio=p95,
        compute_p95_low_ratio=p95_low,
        compute_p95_high_ratio=p95_high,
        compute_p99_ratio=(profile.compute_quantile(0.99) or unknown)[0],
        busy_ratio=profile.busy_ratio,
        allocated_ratio=profile.allocated_ratio,
        idle_class=profile.idle_class,
        quality=list(profile.quality),
    )

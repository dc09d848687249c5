"""The HTTP API: parses, asks the fleet, renders. Its collaborators arrive as arguments."""

import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from rightslice.advice.recommend import Answer, saves
from rightslice.api import page
from rightslice.api.fleet import Fleet, silent_since
from rightslice.api.inventory import InventoryDocument, inventory_document, utc
from rightslice.api.ledger_files import add_ledger_routes
from rightslice.api.problems import PROBLEM_RESPONSES, handle_problems, problem
from rightslice.api.service_metrics import ServiceMetrics
from rightslice.api.targets import TargetsDocument, targets_document
from rightslice.api.tiers import TierDocument, tier_documents
from rightslice.feeders.targets.loop import ScrapeLoop
from rightslice.ledger.ledger import Ledger
from rightslice.report.document import (
    AnswerDocument,
    SummaryDocument,
    UsageDocument,
    answer_document,
    summary_document,
)

# The ledger gains a minute's facts a minute; asking it more often gives the same answer.
CACHE_SECONDS = 15.0
MOST_ROWS = 10_000
# The last is what the middleware, which cuts at the first colon, leaves of "[::1]:PORT". Addresses
# in brackets are no names, and only names can be made to point here.
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "[")


@dataclass(frozen=True, slots=True)
class RecommendationList:
    """One page of answers. `next_cursor` is null on the last page."""

    summary: SummaryDocument
    recommendations: list[AnswerDocument]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class GpuDocument:
    """A card and its use, without advice."""

    uuid: str
    node: str
    card: str
    workloads: list[str]
    usage: UsageDocument


class Answers:
    """The fleet's answers, kept for a moment so that a page load asks the ledger once."""

    def __init__(self, fleet: Fleet, monotonic_seconds: Callable[[], float]) -> None:
        self._fleet = fleet
        self._monotonic_seconds = monotonic_seconds
        self._lock = threading.Lock()
        self._until_seconds = float("-inf")
        self._answers: list[Answer] = []

    def get(self) -> list[Answer]:
        with self._lock:
            now_seconds = self._monotonic_seconds()
            if now_seconds >= self._until_seconds:
                self._answers = self._fleet.answers()
                self._until_seconds = now_seconds + CACHE_SECONDS
            return self._answers


def create_app(
    fleet: Fleet,
    ledger: Ledger,
    monotonic_seconds: Callable[[], float] = time.monotonic,
    scrape: ScrapeLoop | None = None,
    backup_folder: Path | None = None,
) -> FastAPI:
    """Make the service over a fleet and its ledger; `scrape` is None where nothing is scraped.

    Backups and Parquet are written below `backup_folder`, and nowhere where it is None.
    """
    app = FastAPI(
        title="rightslice",
        description="See what a GPU fleet wastes, and which slice or cheaper card would do.",
        docs_url=None,  # the stock page loads its scripts from the internet
        redoc_url=None,
        responses=PROBLEM_RESPONSES,
    )
    # A page elsewhere must not reach a loopback service through a name of its own.
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(LOOPBACK_HOSTS))
    handle_problems(app)
    answers = Answers(fleet, monotonic_seconds)
    metrics = ServiceMetrics(ledger, scrape)
    add_ledger_routes(app, ledger, backup_folder)

    @app.get("/healthz", tags=["self"])
    def healthz() -> dict[str, str]:
        """Tell that the process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["self"], response_model=dict[str, str])
    def readyz() -> Any:
        """Tell whether the ledger can be read and is told of the present."""
        span = ledger.span()
        if span is None:
            return problem(HTTPStatus.SERVICE_UNAVAILABLE, "the ledger holds no hour yet")
        since = silent_since(ledger, fleet.now())
        if since is not None:
            return problem(
                HTTPStatus.SERVICE_UNAVAILABLE,
                f"the ledger was told nothing since {since:%Y-%m-%d %H:%M} UTC",
            )
        return {"first_hour": span[0].isoformat(), "end": span[1].isoformat()}

    @app.get("/metrics", tags=["self"], response_class=PlainTextResponse)
    def own_metrics(request: Request) -> Response:
        """Tell Prometheus how the feeders fare."""
        page, media_type = metrics.page(request.headers.get("accept", ""))
        return Response(page, headers={"Content-Type": media_type})

    @app.get("/v1/targets", tags=["self"])
    def targets() -> TargetsDocument:
        """List what is scraped and how it fares, and what is wrong with where that is told."""
        return targets_document(scrape)

    @app.get("/v1/recommendations", tags=["advice"])
    def recommendations(
        saving: Annotated[
            bool | None, Query(description="only cards with, or without, something to do")
        ] = None,
        node: Annotated[str | None, Query(description="only cards of this node")] = None,
        namespace: Annotated[
            str | None, Query(description="only cards held from this namespace")
        ] = None,
        limit: Annotated[
            int, Query(ge=1, le=MOST_ROWS, description="most cards on one page")
        ] = 100,
        cursor: Annotated[str | None, Query(description="next_cursor of the page before")] = None,
    ) -> RecommendationList:
        """Answer for each card of the fleet, the largest saving first."""
        chosen = [
            answer
            for answer in answers.get()
            if (saving is None or saves(answer) == saving)
            and (node is None or answer.profile.node == node)
            and (namespace is None or _is_held_from(answer, namespace))
        ]
        start = _after(chosen, cursor)
        rows = chosen[start : start + limit]
        more = start + limit < len(chosen)
        return RecommendationList(
            summary_document(chosen),
            [answer_document(answer) for answer in rows],
            rows[-1].profile.uuid if more else None,
        )

    @app.get("/v1/gpus", tags=["cards"])
    def gpus() -> list[GpuDocument]:
        """List the cards seen in the window and how they are used."""
        documents = (answer_document(answer) for answer in answers.get())
        return [GpuDocument(d.uuid, d.node, d.card, d.workloads, d.usage) for d in documents]

    @app.get("/v1/gpus/{uuid}", tags=["cards"])
    def gpu(uuid: str) -> AnswerDocument:
        """Answer for one card."""
        for answer in answers.get():
            if answer.profile.uuid == uuid:
                return answer_document(answer)
        raise HTTPException(
            HTTPStatus.NOT_FOUND, f"no card {uuid!r} was seen in the window; see /v1/gpus"
        )

    @app.get("/v1/inventory", tags=["cards"])
    def inventory(
        start: Annotated[
            datetime | None, Query(description="from when on; as the advice's window without it")
        ] = None,
        end: Annotated[datetime | None, Query(description="until when; now without it")] = None,
        node: Annotated[str | None, Query(description="only cards that were on this node")] = None,
    ) -> InventoryDocument:
        """List where cards were, and which came, went, moved, or were replaced; by time."""
        until = utc(end) if end else fleet.now()
        return inventory_document(
            ledger, utc(start) if start else until - fleet.window, until, node
        )

    @app.get("/v1/tiers", tags=["prices"])
    def tiers() -> list[TierDocument]:
        """List what the price book offers; prices are empty where they are unknown."""
        return tier_documents(fleet.book)

    @app.get("/", response_class=HTMLResponse, include_in_schema=False)
    def index() -> HTMLResponse:
        found = answers.get()
        documents = [asdict(answer_document(answer)) for answer in found]
        summary = asdict(summary_document(found))
        return HTMLResponse(page.render_index(documents, summary, fleet), headers=page.HEADERS)

    @app.get("/page.css", include_in_schema=False)
    def style() -> Response:
        return Response(page.style_sheet(), media_type="text/css")

    @app.get("/docs", response_class=HTMLResponse, include_in_schema=False)
    def docs(request: Request) -> HTMLResponse:
        return HTMLResponse(page.render_docs(request.app.openapi()), headers=page.HEADERS)

    return app


def _is_held_from(answer: Answer, namespace: str) -> bool:
    """Tell whether the card's latest holder is of a namespace; its money is nobody else's."""
    holders = answer.profile.holders
    return bool(holders) and holders[0].namespace == namespace


def _after(chosen: list[Answer], cursor: str | None) -> int:
    """Find where the page after `cursor` starts. Raises HTTPException for a stale cursor."""
    if cursor is None:
        return 0
    for index, answer in enumerate(chosen):
        if answer.profile.uuid == cursor:
            return index + 1
    raise HTTPException(
        HTTPStatus.BAD_REQUEST, f"cursor {cursor!r} is not in this list; start without one"
    )

"""Errors as RFC 9457 problem documents."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rightslice.ledger.ledger import LedgerError


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong: the status in words and as a number, and the sentence."""

    title: str
    status: int
    detail: str


_PROBLEM = {"model": Problem, "description": "A problem document, as RFC 9457 describes it."}
# Every operation may answer so; said once, for the schema.
PROBLEM_RESPONSES: dict[int | str, dict[str, Any]] = {"4XX": _PROBLEM, "5XX": _PROBLEM}


def problem(status: int, detail: str) -> JSONResponse:
    """Make a problem document."""
    body = Problem(HTTPStatus(status).phrase, status, detail)
    return JSONResponse(asdict(body), status, media_type="application/problem+json")


def _http(_: Request, error: Any) -> JSONResponse:
    return problem(error.status_code, str(error.detail))


def _validation(_: Request, error: Any) -> JSONResponse:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}")


def _ledger(_: Request, error: Any) -> JSONResponse:
    return problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))


HANDLERS: tuple[tuple[type[Exception], Callable[[Request, Any], JSONResponse]], ...] = (
    (HTTPException, _http),
    (RequestValidationError, _validation),
    (LedgerError, _ledger),
)


def handle_problems(app: FastAPI) -> None:
    """Answer every error of an app as a problem document."""
    for error_type, handler in HANDLERS:
        app.add_exception_handler(error_type, handler)

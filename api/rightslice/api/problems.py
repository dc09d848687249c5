"""Errors as RFC 9457 problem documents."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from rightslice.ledger.ledger import LedgerError


def problem(status: int, detail: str) -> JSONResponse:
    """Make a problem document."""
    body = {"title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status, media_type="application/problem+json")


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

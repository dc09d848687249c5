"""The page at /, and the API's own documentation: HTML made here, nothing from the internet."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from rightslice.api.fleet import Fleet, silent_since
from rightslice.report import text
from rightslice.report.text import Document

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
BAR_WIDTH = 96


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("rightslice.api"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "money": text.money_text,
        "gib": text.gib_text,
        "percent": text.percent_text,
        "compute": text.compute_text,
        "advice": text.advice_text,
        "why": text.why_text,
        "beside": text.beside_text,
        "near_misses": text.near_miss_texts,
        "place": text.place_text,
        "holder": text.holder_text,
        "bar": bar_width,
    }
    environment.globals |= {
        "saving_text": text.saving_text,
        "saving_at": text.saving_at,
        "cash_words": text.CASH_WORDS,
        "bar_full": BAR_WIDTH,
    }
    return environment


def bar_width(ratio: float | None) -> int:
    """Give the length of a bar in pixels; nothing for an unknown."""
    return 0 if ratio is None else round(BAR_WIDTH * min(max(ratio, 0.0), 1.0))


@cache
def style_sheet() -> str:
    return files("rightslice.api").joinpath("templates/page.css").read_text(encoding="utf-8")


def render_index(answers: Sequence[Document], summary: Document, fleet: Fleet) -> str:
    """Render the fleet's page."""
    span = fleet.history.span()
    return (
        _environment()
        .get_template("index.html")
        .render(
            answers=answers,
            summary=summary,
            span=span,
            is_stale=silent_since(fleet.history, fleet.now()) is not None,
            book=fleet.book,
            channel=fleet.channel or fleet.book.default_channel,
        )
    )


def render_docs(schema: Mapping[str, Any]) -> str:
    """Render the API's documentation from its OpenAPI schema."""
    operations = [
        {
            "title": f"{method.upper()} {path}",
            "text": operation["description"],
            "parameters": [_parameter(row) for row in operation.get("parameters", ())],
        }
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    documents = [
        {
            "name": name,
            "text": document.get("description", ""),
            "keys": list(document.get("properties", ())),
        }
        for name, document in schema.get("components", {}).get("schemas", {}).items()
    ]
    template = _environment().get_template("docs.html")
    return template.render(operations=operations, documents=documents)


def _parameter(row: Mapping[str, Any]) -> dict[str, str]:
    schema = row["schema"]
    kinds = [part["type"] for part in schema.get("anyOf", (schema,)) if part["type"] != "null"]
    return {
        "name": row["name"],
        "place": row["in"],
        "kind": " or ".join(kinds),
        "text": row.get("description", ""),
    }

"""A real headless Chromium on pages of this machine."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from shutil import which

from playwright.sync_api import Page, sync_playwright

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass(slots=True)
class Visit:
    """A page, and what it did besides being shown."""

    page: Page
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@contextmanager
def browsing(width: int = 1280, height: int = 900) -> Iterator[Visit]:
    """Open a browser for the length of a test."""
    program = which("chromium")
    assert program is not None, "chromium is not installed; ./run test says how"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        page = browser.new_page(viewport={"width": width, "height": height})
        visit = Visit(page)
        page.on("request", lambda request: visit.requests.append(request.url))
        page.on("console", lambda message: visit.complaints.append(message.text))
        page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        try:
            yield visit
        finally:
            browser.close()

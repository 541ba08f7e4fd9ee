"""A Chromium without a window, and pages in it that hold the service's page to what it promises."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from tests.programs import program

ROOT = Path(__file__).parents[1]
SCREENSHOTS = ROOT / "build" / "page"
# It looks for nothing on the network by itself, and runs as root in a container, too.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
TIMEOUT = 10_000  # milliseconds


@contextmanager
def chromium() -> Iterator[Browser]:
    """Raises AssertionError where there is none."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program("chromium"), args=list(FLAGS))
        yield browser
        browser.close()


class Tab:
    """A page that is open at the service's, and what it did: requests to other hosts, errors, and violations
    of its policy. What a test expects of those it takes away before the end."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.strangers: list[str] = []
        self.errors: list[str] = []
        page.set_default_timeout(TIMEOUT)
        page.on("request", self._asked)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._said)

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((f"{self.url}/", "data:", "blob:")):
            self.strangers.append(request.url)

    def _said(self, message: Any) -> None:
        # The browser's own line for each answer that is no success: the page says it in words.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.errors.append(message.text)

    def open(self, address: str = "") -> Page:
        """Goes to a view."""
        self.page.goto(f"{self.url}/{address}")
        return self.page

    def keep(self, name: str) -> None:
        """A screenshot for people, as build output."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)


@contextmanager
def tab(browser: Browser, url: str, **options: Any) -> Iterator[Tab]:
    """A tab of a browser that knows nothing yet; its page must do nothing wrong until the end."""
    context: BrowserContext = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, **options})
    try:
        opened = Tab(context.new_page(), url)
        yield opened
        assert opened.strangers == []
        assert opened.errors == []
    finally:
        context.close()

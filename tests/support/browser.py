"""A real browser, for tests of the console: Debian's Chromium, without a window."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
TIMEOUT_MS = 120_000
"""How long to wait for what the browser is to do; machines that test are busy."""
RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; without one, tests that need it are left out, and say so."""
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        with contextlib.closing(browser):
            yield browser


class Window:
    """A page of the console.

    Args:
        page: The browser's page.
        url: Where the console is.

    Attributes:
        errors: What went wrong in the page's own code, refusals of its policy among it.
    """

    def __init__(self, page: Page, url: str) -> None:
        page.set_default_timeout(TIMEOUT_MS)
        self.page = page
        self.url = url
        self.errors: list[str] = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", self._heard)

    def open(self, place: str = "#/") -> None:
        """Goes to one of its places, and waits until the tables are known."""
        self.page.goto(f"{self.url}/{place}")
        self.page.reload()
        self.page.locator(".tree-list > details").first.wait_for(state="attached")

    def write(self, statement: str) -> None:
        """Replaces the text of the editor by typing."""
        self.page.locator(".editor .cm-content").click()
        self.page.keyboard.press("Control+A")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(statement)

    def run(self, statement: str) -> None:
        """Runs a statement, by keys alone."""
        self.write(statement)
        self.page.keyboard.press("Control+Enter")

    def status(self, text: str) -> None:
        """Waits until the line of the state says so."""
        self.page.locator(".status", has_text=text).wait_for()

    def cells(self) -> list[list[str]]:
        """The cells that are drawn, once all of them have arrived."""
        self.page.locator(".grid-row:not(.grid-head)").first.wait_for()
        expect(self.page.locator(".grid-cell").get_by_text("…", exact=True)).to_have_count(0)
        rows = self.page.locator(".grid-row:not(.grid-head)").all()
        return [row.locator(".grid-cell").all_inner_texts() for row in rows]

    def barriers(self) -> list[str]:
        """What would keep people out, by the rules of WCAG AA."""
        before = list(self.errors)
        only = {"runOnly": {"type": "tag", "values": list(RULES)}}
        found: Any = Axe().run(self.page, options=only)
        self.errors[:] = before  # the judge has styles of its own, which the policy refuses
        return [
            f"{each['id']}: {node['html'][:200]} {node['failureSummary']}"
            for each in found.response["violations"]
            for node in each["nodes"]
        ]

    def _heard(self, message: ConsoleMessage) -> None:
        is_answer = "Failed to load resource" in message.text  # a statement's error, shown by name
        if message.type == "error" and not is_answer:
            self.errors.append(message.text)

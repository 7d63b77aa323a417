"""The pictures of the console in the documentation: a real browser over a gateway with orders.

`make pictures` runs it, and writes `docs/images/{console,plan,table,chart}.png`.
"""

from __future__ import annotations

import contextlib
import datetime
import pathlib
import random
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

from playwright.sync_api import Page, ViewportSize

from support.browser import Window, chromium
from support.gateway import Gateway
from support.stack import Stack

IMAGES = pathlib.Path(__file__).parents[2] / "docs" / "images"
SIZE: ViewportSize = {"width": 1280, "height": 800}
BATCHES, BATCH, TAIL = 5, 400, 180
COMING_S = 14
"""Seconds for which orders come while the page of the table is open."""
BY_DAY = """SELECT date(placed_at) AS day, channel, round(sum(amount), 2) AS revenue
FROM orders
GROUP BY 1, 2
ORDER BY 1, 2;

-- the ten largest orders, the newest ones among them
SELECT id, placed_at, country, amount, items FROM orders ORDER BY amount DESC LIMIT 10"""


def orders() -> Iterator[Mapping[str, Any]]:
    """Orders of some days, the same ones each time."""
    chance = random.Random(7)
    begin = datetime.datetime(2026, 11, 23, tzinfo=datetime.UTC)
    for number in range(BATCHES * BATCH + TAIL):
        at = begin + datetime.timedelta(minutes=4 * number)
        items = [
            {"sku": f"A-{chance.randrange(100)}", "quantity": chance.randrange(1, 4)}
            for _ in range(chance.randrange(1, 4))
        ]
        yield {
            "id": number,
            "placed_at": at.isoformat(),
            "country": chance.choice(["AT", "CH", "DE", "FR", "IT"]),
            "channel": chance.choices(["web", "app", "shop"], [5, 3, 2])[0],
            "amount": round(chance.lognormvariate(3.5, 0.6), 2),
            "items": items,
        }


def fill(stack: Stack) -> None:
    """Creates a table of orders, most of them in files, and a view."""
    stack.tier_engine = "local"
    stack.create_topic("orders", 3)
    columns = (
        "id bigint, placed_at timestamp(6) with time zone, country varchar, channel varchar,"
        " amount double, items array(row(sku varchar, quantity integer))"
    )
    stack.create_table("orders", columns)
    rows = list(orders())
    for batch in range(BATCHES):
        stack.produce("orders", rows[batch * BATCH : (batch + 1) * BATCH])
        stack.tier("orders")
    stack.produce("orders", rows[BATCHES * BATCH :])


def draw(window: Window, stack: Stack) -> None:
    """Takes the pictures."""
    page = window.page
    window.open()
    page.get_by_role("button", name="Columns of orders").first.click()
    window.write(BY_DAY)
    page.get_by_role("button", name="Run all").click()
    page.get_by_role("tab", name="10 rows").wait_for()
    results = page.get_by_role("tablist", name="Results").get_by_role("tab")
    results.first.click()
    page.get_by_role("tab", name="Chart", exact=True).click()
    page.get_by_label("Kind of chart").select_option("Stacked bars")
    page.locator(".chart .bar").first.wait_for()
    _save(page, "console")
    page.get_by_label("Kind of chart").select_option("Line")
    page.locator(".chart .way").first.wait_for()
    _save(page, "chart")
    page.get_by_role("tab", name="Plan", exact=True).click()
    page.locator(".scan").first.wait_for()
    _save(page, "plan")
    window.open("#/t/lake/default/orders")
    for second, order in zip(range(COMING_S), orders(), strict=False):
        stack.produce("orders", [order] * (3 + second * 5 % 7))
        page.wait_for_timeout(1000)
    _save(page, "table")


def _save(page: Page, name: str) -> None:
    page.mouse.move(SIZE["width"] - 4, SIZE["height"] - 4)
    page.evaluate("document.activeElement?.blur()")
    file = IMAGES / f"{name}.png"
    page.screenshot(path=file)
    print(f"{file.relative_to(IMAGES.parents[1])}: {file.stat().st_size / 1000:.0f} kB")


def main() -> None:
    """Starts a stack of its own, fills it and takes the pictures."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as opened:
        stack = opened.enter_context(contextlib.closing(Stack(pathlib.Path(directory))))
        fill(stack)
        gateway = opened.enter_context(contextlib.closing(Gateway(stack.config)))
        browser = opened.enter_context(chromium())
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        draw(Window(page, gateway.url), stack)


if __name__ == "__main__":
    main()

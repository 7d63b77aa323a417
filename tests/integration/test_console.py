"""Goal: the console shows what the gateway answers, to everybody, and runs nothing of it.

Method: a real Chromium over a real gateway. Pages are used by keys and by the names that assistive
technology reads; axe-core looks at each of them in both themes; whatever the page's own code or its
policy complains of fails the test.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import pathlib
import re
from collections.abc import Iterator

import bcrypt
import pytest
from playwright.sync_api import Browser, Route, expect
from pyarrow import parquet
from support.browser import TIMEOUT_MS, Window, chromium
from support.gateway import Gateway
from support.stack import Stack
from support.waiting import wait_until

pytestmark = pytest.mark.integration

MILLION = (
    "SELECT a.n * 100 + b.n AS id, 'row ' || CAST(b.n AS varchar) AS text,"
    " CAST(NULL AS integer) AS nothing"
    " FROM UNNEST(sequence(0, 9999)) AS a(n) CROSS JOIN UNNEST(sequence(0, 99)) AS b(n) ORDER BY 1"
)
EVIL = "<img src=x onerror=\"document.title='run'\"><script>document.title='run'</script>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def table(stack: Stack) -> str:
    """A table with rows in files and more in the log, one of which is up to no good."""
    name = f"console_{hashlib.sha256(str(id(stack)).encode()).hexdigest()[:8]}"
    stack.create_topic(name, 2)
    stack.create_table(name, "id bigint, price double, text varchar")
    stack.produce(name, [{"id": n, "price": n / 4, "text": "plain"} for n in range(40)])
    stack.tier(name)
    stack.produce(name, [{"id": 40, "price": 1.5, "text": EVIL}, {"id": 41, "text": ""}])
    return name


@pytest.fixture
def window(browser: Browser, gateway: Gateway, table: str) -> Iterator[Window]:
    """Where at least the table is listed."""
    with contextlib.closing(browser.new_context(viewport={"width": 1280, "height": 900})) as own:
        own.set_default_timeout(TIMEOUT_MS)
        found = Window(own.new_page(), gateway.url)
        yield found
        assert found.errors == []


def test_statements_are_run_by_keys_and_show_rows_plan_and_receipt(
    window: Window, stack: Stack, table: str
) -> None:
    window.open()
    window.run(f"SELECT id, price, text FROM {table} ORDER BY id DESC LIMIT 3")
    window.status("3 rows")
    window.status("40 cold")
    window.status("2 hot")
    assert window.cells() == [["41", "NULL", ""], ["40", "1.5", EVIL], ["39", "9.75", "plain"]]
    assert window.page.title() == "Seamline"
    window.page.get_by_role("tab", name="Plan").click()
    told = re.compile("40 offsets in files, 2 only in the log")
    picture = window.page.get_by_role("img", name=told)
    expect(picture).to_be_visible()
    window.page.keyboard.press("ArrowRight")
    facts = window.page.locator(".facts")
    expect(facts).to_contain_text("40 rows")
    expect(facts).to_contain_text("2 rows")
    expect(window.page.get_by_role("img", name=re.compile("40 offsets in files"))).to_be_visible()
    # more digits than a number of a browser has
    snapshot = str(stack.load(table).state.current_snapshot_id)
    expect(window.page.locator(".scan")).to_contain_text(f"snapshot {snapshot} ")


@pytest.mark.prove
def test_names_that_are_offered_are_gone_once_the_statement_runs(
    window: Window, table: str
) -> None:
    window.open()
    window.write("SELECT count(*) FROM ")
    window.page.keyboard.type(table)
    offered = window.page.locator(".cm-tooltip-autocomplete")
    expect(offered).to_be_visible()
    window.page.keyboard.press("Control+Enter")
    expect(offered).to_have_count(0)
    window.status("1 row")


@pytest.mark.prove
def test_an_address_that_leads_nowhere_says_so(window: Window) -> None:
    """Whoever wrote it, it is an answer of the page and no fault in it."""
    window.open("#/t/lake/default/no%E0such")
    alert = window.page.get_by_role("alert")
    expect(alert).to_contain_text("table lake.default.no%E0such does not exist")
    expect(alert).not_to_contain_text("line")  # of a statement that nobody has written
    window.page.wait_for_load_state("networkidle")
    expect(alert).to_have_count(1)
    window.open("#/q/nosuch")
    expect(alert).to_contain_text("there is no statement nosuch")


@pytest.mark.prove
def test_a_plan_says_where_the_statement_is_wrong(window: Window, table: str) -> None:
    window.open()
    window.run("SELECT 1 AS one")
    window.status("1 row")
    for statement, place in (
        (f"SELECT nope FROM {table}", "(line 1, column 8)"),
        (f"EXPLAIN SELECT nope FROM {table}", "(line 1, column 16)"),
        (f"EXPLAIN\n(FORMAT JSON) SELECT\n nope FROM {table}", "(line 3, column 2)"),
    ):
        window.write(statement)
        window.page.keyboard.press("Control+Shift+Enter")
        alert = window.page.get_by_role("alert").filter(has_text="column nope does not exist")
        expect(alert).to_contain_text(place)
        expect(window.page.locator(".editor .cm-lintRange-error")).to_have_text("nope")
        expect(window.page.locator(".status")).to_be_empty()  # what it said was of another one


@pytest.mark.soak
@pytest.mark.prove
def test_a_result_is_a_chart_that_keys_walk_through(window: Window, table: str) -> None:
    window.open()
    expect(window.page.locator(".welcome")).to_contain_text("run the statement at the cursor")
    window.run(f"SELECT text, id, price FROM {table} WHERE id BETWEEN 10 AND 12 ORDER BY id")
    window.status("3 rows")
    window.page.get_by_role("tab", name="Chart").click()
    chart = window.page.get_by_role("slider")
    expect(chart).to_have_accessible_name("id over text: 3 points")
    expect(window.page.locator(".chart rect.bar")).to_have_count(3)
    window.page.get_by_label("Column that is drawn").select_option("price")
    window.page.get_by_label("Column along the axis").select_option("id")
    window.page.get_by_label("Kind of chart").select_option("Line")
    expect(chart).to_have_accessible_name("price over id: 3 points")
    expect(window.page.locator(".chart polyline.way")).to_have_count(1)
    chart.focus()
    window.page.keyboard.press("End")
    expect(chart).to_have_attribute("aria-valuetext", "12: 3")
    window.page.keyboard.press("ArrowLeft")
    expect(window.page.locator("figcaption")).to_have_text("11: 2.75")
    window.run("SELECT 'a' AS letters")
    window.page.get_by_role("tab", name="Chart").click()
    expect(window.page.locator(".content")).to_have_text(
        "A chart needs rows, and a column of numbers."
    )


ENDLESS = (
    "WITH t AS (SELECT x FROM UNNEST(sequence(1, 10000)) AS t(x))"
    " SELECT count(*) FROM t a, t b, t c WHERE a.x + b.x + c.x = -1"
)
TWO_GROUPS = (
    "SELECT * FROM (VALUES (DATE '2026-01-01', 'AT', 1), (DATE '2026-01-01', 'DE', 2),"
    " (DATE '2026-01-02', 'DE', 3), (DATE '2026-01-02', 'AT', -4)) AS t(day, country, orders)"
)


@pytest.mark.prove
def test_a_second_column_of_texts_becomes_the_series_of_a_chart(window: Window) -> None:
    """Two groups are two lines, and never one that goes back and forth."""
    window.open()
    window.run(TWO_GROUPS)
    window.status("4 rows")
    window.page.get_by_role("tab", name="Chart").click()
    chart = window.page.get_by_role("slider")
    expect(chart).to_have_accessible_name("orders over day by country: 4 points")
    ways = window.page.locator(".chart polyline.way")
    expect(ways).to_have_count(2)
    for way in ways.all():
        corners = [
            float(each.partition(",")[0]) for each in str(way.get_attribute("points")).split()
        ]
        assert len(corners) == 2
        assert corners[0] < corners[1]
    chart.focus()
    window.page.keyboard.press("End")
    expect(chart).to_have_attribute("aria-valuetext", "2026-01-02 · DE: 3")
    kind = window.page.get_by_label("Kind of chart")
    for shown, columns in (("Bars", 4), ("Stacked bars", 2)):
        kind.select_option(shown)
        bars = window.page.locator(".chart rect.bar")
        expect(bars).to_have_count(4)
        places = bars.evaluate_all("bars => bars.map(bar => bar.getAttribute('x'))")
        assert len(set(places)) == columns, shown
    series = window.page.get_by_role("group", name="Series")
    series.get_by_role("button", name="AT").click()
    expect(window.page.locator(".chart rect.bar")).to_have_count(2)
    window.page.get_by_label("Column of the series").select_option("nothing")
    kind.select_option("Line")
    expect(ways).to_have_count(0)
    expect(window.page.locator(".notes")).to_contain_text("Several rows have the same day")


def test_statements_run_in_order_with_a_result_each(window: Window, table: str) -> None:
    window.open()
    window.write(
        f"-- first\nSELECT 1 AS one; USE lake.default; SELECT id FROM {table}"
        " WHERE text = ';' ; /* ; */\nSELECT nope; SELECT 2"
    )
    window.page.get_by_role("button", name="Run all").click()
    results = window.page.get_by_role("tablist", name="Results").get_by_role("tab")
    expect(results).to_have_count(5)
    outcomes = ["1 row", "use", "0 rows", "failed", "not run"]
    for result, outcome in zip(results.all(), outcomes, strict=True):
        expect(result).to_contain_text(outcome)
    window.page.get_by_role("alert").filter(has_text="COLUMN_NOT_FOUND").wait_for()
    expect(window.page.locator(".cm-lintRange-error")).to_have_text("nope")
    window.page.keyboard.press("Tab")
    results.nth(2).click()
    expect(window.page.locator(".content")).to_contain_text("No rows")
    window.page.keyboard.press("ArrowRight")
    window.page.keyboard.press("ArrowRight")
    expect(window.page.locator(".status")).to_have_text("Not run, as statement 4 failed.")
    results.first.click()
    assert window.cells() == [["1"]]
    window.write("SELECT 3 AS three; SELECT 4 AS four")
    window.page.keyboard.press("Control+Home")
    window.page.keyboard.press("Control+Enter")
    window.status("1 row")
    expect(results).to_have_count(0)  # one statement is one result, as the cursor says
    assert window.cells() == [["3"]]
    window.page.locator(".editor .cm-content").click()
    window.page.keyboard.press("Control+A")
    window.page.keyboard.press("Control+Enter")
    expect(results.last).to_have_attribute("aria-selected", "true")
    expect(results.last).to_contain_text("1 row")
    assert window.cells() == [["4"]]


@pytest.mark.prove
def test_the_session_is_seen_and_taken_back_beside_the_editor(window: Window) -> None:
    window.open()
    window.write(
        "SET SESSION engine = 'duckdb'; USE lake.information_schema; PREPARE p FROM SELECT 1"
    )
    window.page.get_by_role("button", name="Run all").click()
    session = window.page.get_by_role("group", name="Session")
    for chip in ("engine duckdb", "in lake.information_schema", "prepared p"):
        expect(session.locator(".chip", has_text=chip)).to_be_visible()
    window.run("SELECT table_name FROM schemata LIMIT 0")
    window.page.get_by_role("alert").filter(has_text="COLUMN_NOT_FOUND").wait_for()
    window.page.reload()  # it is the tab's
    session.get_by_role("button", name="Take back in lake.information_schema").click()
    window.run("SELECT 1 FROM schemata")
    window.page.get_by_role("alert").filter(has_text="TABLE_NOT_FOUND").wait_for()
    session.get_by_role("button", name="Take back prepared p").click()
    window.run("EXECUTE p")
    window.page.get_by_role("alert").wait_for()
    window.page.get_by_role("button", name="Session", exact=True).click()
    panel = window.page.get_by_role("dialog", name="Session of this tab")
    panel.get_by_label("freshness").fill("soon")
    window.page.keyboard.press("Tab")
    expect(panel.get_by_role("alert")).to_contain_text("soon")
    panel.get_by_label("freshness").fill("bounded '2s'")
    window.page.keyboard.press("Tab")
    expect(session.locator(".chip", has_text="bounded")).to_be_visible()
    panel.get_by_label("engine").select_option("default: auto")
    expect(session.locator(".chip", has_text="engine")).to_have_count(0)
    panel.get_by_label("catalog.schema").select_option("lake.default")
    expect(session.locator(".chip", has_text="in lake.default")).to_be_visible()
    assert window.barriers() == []
    window.page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    window.run("SHOW SESSION LIKE 'freshness'")
    window.status("1 row")
    assert window.cells()[0][1] == "bounded '2s'"


@pytest.mark.prove
def test_rows_and_charts_are_refreshed_as_often_as_somebody_says(
    window: Window, stack: Stack, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar")
    stack.produce(name, [{"id": 1, "text": "a"}, {"id": 2, "text": "b"}])
    window.open()
    window.run(f"SELECT text, id FROM {name} ORDER BY id")
    window.status("2 rows")
    link = window.page.url
    window.page.get_by_label("Refresh rows and chart").select_option("every 2 s")
    stack.produce(name, [{"id": 3, "text": "c"}])
    window.status("3 rows")
    assert window.cells()[-1] == ["c", "3"]
    window.page.get_by_role("tab", name="Chart").click()
    window.page.get_by_label("Kind of chart").select_option("Points")
    points = window.page.locator(".chart .dot")
    expect(points).to_have_count(3)
    stack.produce(name, [{"id": 4, "text": "d"}])
    expect(points).to_have_count(4)
    expect(window.page.get_by_label("Kind of chart")).to_have_value("scatter")
    assert window.page.url == link  # whose result is the one that was run
    window.page.get_by_label("Refresh rows and chart").select_option("Refresh: off")
    window.page.get_by_role("tab", name="Receipt").click()
    window.page.get_by_role("button", name="Read at this token").click()
    pinned = window.page.get_by_role("button", name="Take back token")
    pinned.wait_for()
    stack.produce(name, [{"id": 5, "text": "e"}])
    for count in (4, 5):
        window.run(f"SELECT count(*) FROM {name}")
        window.status("1 row")
        window.page.get_by_role("tab", name="Rows").click()
        assert window.cells() == [[str(count)]]
        if count == 4:
            pinned.click()
    window.open("#/history")
    told = window.page.locator(".history .statement").all_inner_texts()
    assert sum(f"SELECT text, id FROM {name}" in statement for statement in told) == 1


@pytest.mark.prove
def test_cells_are_selected_and_copied_as_spreadsheets_take_them(window: Window) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.open()
    window.run(
        "SELECT * FROM (VALUES (1, 'a', 'x'), (2, 'b' || chr(9) || 'c', 'y'), (3, NULL, 'z'))"
    )
    window.status("3 rows")

    def copied() -> str:
        return str(window.page.evaluate("navigator.clipboard.readText()"))

    window.page.get_by_role("grid").focus()
    window.page.keyboard.press("Control+c")
    wait_until(lambda: copied() == "1", what="the cell in the clipboard")  # browsers copy later
    window.page.keyboard.press("Shift+ArrowRight")
    window.page.keyboard.press("Shift+PageDown")
    expect(window.page.locator(".grid-cell.selected")).to_have_count(6)
    window.page.get_by_role("button", name="Copy rows").click()
    window.status("Copied 3 rows of 2 columns.")
    assert copied() == '1\ta\n2\t"b\tc"\n3\t'
    window.page.get_by_role("grid").focus()
    window.page.keyboard.press("ArrowUp")
    window.page.get_by_role("button", name="Copy rows").click()
    window.status("Copied 3 rows of 3 columns.")
    assert copied().splitlines()[1:] == ["1\ta\tx", '2\t"b\tc"\ty', "3\t\tz"]


@pytest.mark.prove
def test_a_cell_that_is_not_there_yet_is_copied_when_it_is(window: Window) -> None:
    window.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.open()
    held: list[Route] = []
    window.page.route("**/chunks/0*", lambda route: held.append(route))  # it is marked
    window.run("SELECT 'late' AS a")
    window.status("1 row")
    window.page.get_by_role("grid").focus()
    window.page.keyboard.press("Control+c")
    wait_until(lambda: window.page.title() and len(held) == 2)  # the page's own, and what is copied
    for late in held:
        late.continue_()
    wait_until(
        lambda: window.page.evaluate("navigator.clipboard.readText()") == "late",
        what="the cell in the clipboard",
    )


@pytest.mark.prove
def test_rows_that_cannot_be_fetched_are_asked_for_once_until_somebody_tries_again(
    window: Window,
) -> None:
    window.open()
    refused: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route)
        route.abort()

    window.page.route("**/chunks/0*", refuse)
    window.run("SELECT 'kept' AS a")
    alert = window.page.get_by_role("alert").filter(has_text="the gateway did not answer")
    alert.wait_for()
    window.page.get_by_role("grid").focus()
    for key in ("ArrowDown", "PageDown", "Home"):
        window.page.keyboard.press(key)  # each draws the rows again
    again = window.page.get_by_role("button", name="Try again")
    again.click()
    wait_until(lambda: window.page.title() and len(refused) == 2)
    alert.wait_for()
    window.page.unroute("**/chunks/0*")
    again.press("Enter")
    assert window.cells() == [["kept"]]
    assert (alert.count(), len(refused)) == (0, 2)
    window.errors.clear()  # the browser's own words about what was refused


@pytest.mark.prove
@pytest.mark.parametrize(
    ("width", "is_whole"),
    [pytest.param(1440, True, id="room"), pytest.param(700, False, id="none")],
)
def test_a_long_value_is_shown_whole_where_there_is_room(
    window: Window, width: int, is_whole: bool
) -> None:
    window.page.set_viewport_size({"width": width, "height": 800})
    window.open()
    window.run("SELECT 'short' AS a, rpad('x', 100, 'x') AS b")
    window.status("1 row")
    assert window.cells() == [["short", "x" * 100]]
    left_out = "cell => cell.scrollWidth - cell.clientWidth"
    cut = window.page.locator(".grid-cell").evaluate_all(f"cells => cells.map({left_out})")
    assert [pixels <= 0 for pixels in cut] == [True, is_whole]
    grid = window.page.locator(".grid")
    past = grid.evaluate("grid => grid.scrollWidth - grid.clientWidth")
    assert past <= 0 or not is_whole


@pytest.mark.prove
def test_a_row_and_a_column_are_shown_in_full(window: Window, tmp_path: pathlib.Path) -> None:
    window.open()
    window.run(
        "SELECT CAST(ROW(9007199254740993, ARRAY['a', NULL])"
        " AS row(id bigint, tags array(varchar))) AS nested, n, 'x' AS text"
        " FROM UNNEST(sequence(1, 4)) AS t(n) ORDER BY n"
    )
    window.status("4 rows")
    window.cells()
    window.page.get_by_role("grid").focus()
    window.page.keyboard.press("Enter")
    row = window.page.get_by_role("dialog", name="Row 1")
    expect(row.locator("dd").first).to_have_text(
        '{\n  "id": 9007199254740993,\n  "tags": [\n    "a",\n    null\n  ]\n}',
        use_inner_text=True,
    )
    assert window.barriers() == []
    window.page.keyboard.press("Escape")
    window.page.get_by_role("columnheader", name="text").click()
    statistics = window.page.get_by_role("dialog", name="Statistics of text")
    expect(statistics).to_contain_text("4 · 100 %")
    window.page.keyboard.press("Escape")
    window.page.get_by_role("grid").focus()
    window.page.keyboard.press("ArrowRight")
    window.page.keyboard.press("Shift+Enter")
    statistics = window.page.get_by_role("dialog", name="Statistics of n")
    facts = dict(
        zip(
            statistics.locator("dt").all_inner_texts(),
            statistics.locator("dd").all_inner_texts(),
            strict=True,
        )
    )
    assert facts == {
        "nulls": "0 (0 %)", "distinct": "4", "lowest": "1", "highest": "4", "average": "2.5"
    }  # fmt: skip
    assert window.barriers() == []
    window.page.keyboard.press("Escape")
    with window.page.expect_download() as started:
        window.page.get_by_role("button", name="Download Parquet").click()
    file = tmp_path / "rows.parquet"
    started.value.save_as(file)
    read = parquet.read_table(file).to_pylist()
    nested = {"id": 9007199254740993, "tags": ["a", None]}
    assert read == [{"nested": nested, "n": n, "text": "x"} for n in range(1, 5)]


@pytest.mark.prove
def test_a_narrow_window_scrolls_in_one_direction(window: Window, table: str) -> None:
    """And what is long neither leaves it nor hides what stands beside it."""
    window.page.set_viewport_size({"width": 390, "height": 800})
    window.open()
    window.write(f"SELECT * FROM {table}; SET SESSION token = '{'x' * 400}'; {TWO_GROUPS}")
    window.page.get_by_role("button", name="Run all").click()
    window.page.get_by_role("tab", name="42 rows").click()
    window.page.get_by_role("button", name="Take back token").click()
    for place in ("#/", f"#/t/lake/default/{table}", "#/history", "#/running"):
        window.open(place)
        wide = window.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390, place
        assert window.page.evaluate("document.documentElement.scrollHeight") <= 800, place
    window.page.get_by_role("button", name="Tables").click()
    window.page.get_by_role("link", name=table).first.click()
    expect(window.page.get_by_role("heading", name=f"lake.default.{table}")).to_be_visible()
    expect(window.page.get_by_role("searchbox")).to_be_hidden()


def test_an_error_is_underlined_where_it_lies(window: Window, table: str) -> None:
    window.open()
    window.run(f"SELECT 1;\n\nSELECT id,\n  prise FROM {table}")
    window.page.get_by_role("alert").filter(has_text="COLUMN_NOT_FOUND").wait_for()
    expect(window.page.locator(".content")).to_contain_text("Did you mean price?")
    expect(window.page.locator(".cm-lintRange-error")).to_have_text("prise")


def test_names_are_completed(window: Window, table: str) -> None:
    window.open()
    window.write("SELECT ")
    window.page.keyboard.type("approx_dis")
    window.page.locator(".cm-tooltip-autocomplete", has_text="approx_distinct").wait_for()
    window.write("SELECT count(*) FROM ")
    window.page.keyboard.type(table[:11])
    window.page.locator(".cm-tooltip-autocomplete", has_text=table).wait_for()


@pytest.mark.prove
def test_columns_and_signatures_are_completed_with_their_types(window: Window, table: str) -> None:
    window.open()
    offered = window.page.locator(".cm-tooltip-autocomplete li")
    window.write("SELECT ")
    window.page.keyboard.type("pric")
    expect(offered.filter(has_text="price").first).to_contain_text("double · ")  # nothing says FROM
    window.write(f"SELECT  FROM {table}")
    for _ in range(len(f" FROM {table}")):
        window.page.keyboard.press("ArrowLeft")
    window.page.keyboard.type("pri")
    expect(offered.first).to_have_text("pricedouble")
    window.page.keyboard.press("Escape")
    window.write("SELECT ")
    window.page.keyboard.type("date_ad")
    expect(offered.first).to_have_text("date_add(unit, bigint, T) → T")
    window.page.keyboard.press("Escape")
    window.page.get_by_role("button", name=f"Columns of {table}").first.click()
    columns = window.page.get_by_role("list", name=f"Columns of {table}")
    expect(columns.get_by_role("listitem").nth(1)).to_have_text("pricedouble")
    window.write("SELECT ")
    columns.get_by_role("button", name="price").click()
    expect(window.page.locator(".editor .cm-content")).to_have_text("SELECT price")


@pytest.mark.prove
def test_parts_of_the_page_are_moved_by_keys_and_stay_so(window: Window) -> None:
    window.open()
    editor = window.page.locator(".editor-box")
    handle = window.page.get_by_role("separator", name="Height of the editor")
    before = editor.bounding_box()
    handle.focus()
    for _ in range(5):
        window.page.keyboard.press("ArrowDown")
    after = editor.bounding_box()
    assert before is not None
    assert after is not None
    assert after["height"] > before["height"] + 100
    window.open()
    assert editor.bounding_box() == after
    handle.dblclick()
    expect(handle).to_have_attribute("aria-valuenow", "34")


def test_a_statement_is_canceled_by_escape(window: Window, gateway: Gateway) -> None:
    window.open()
    window.run(ENDLESS)
    window.page.get_by_role("button", name="Cancel").wait_for()
    window.page.keyboard.press("Escape")
    window.page.get_by_role("alert").filter(has_text="CANCELED").wait_for()
    assert gateway.rows("SELECT 1") == [(1,)]


def test_a_statement_of_somebody_else_is_seen_and_killed(
    window: Window, gateway: Gateway, browser: Browser
) -> None:
    window.open()
    window.run(ENDLESS)
    window.page.get_by_role("button", name="Cancel").wait_for()
    with contextlib.closing(browser.new_context()) as another:
        another.set_default_timeout(TIMEOUT_MS)
        other = Window(another.new_page(), gateway.url)
        other.open("#/running")
        entry = other.page.locator(".history li", has_text="a.x + b.x + c.x = -1")
        expect(entry).to_contain_text("running")
        assert other.barriers() == []
        entry.get_by_role("button", name="Kill").click()
        expect(entry).to_have_count(0)
        assert other.errors == []
    window.page.get_by_role("alert").filter(has_text="CANCELED").wait_for()


@pytest.mark.prove
def test_a_session_that_is_refused_begins_anew(window: Window) -> None:
    window.open()
    session = '{"after": "of another gateway", "properties": {}, "prepared": {}}'
    window.page.evaluate("text => sessionStorage.setItem('seamline.session', text)", session)
    window.open()
    window.run("SELECT 1")
    window.page.get_by_role("alert").filter(has_text="INVALID_TOKEN").wait_for()
    window.run("SELECT 1")
    window.status("1 row")


@pytest.mark.soak
@pytest.mark.prove
def test_a_million_rows_are_a_few_elements(window: Window, tmp_path: pathlib.Path) -> None:
    window.open()
    window.run(MILLION)
    window.status("1,000,000 rows")
    grid = window.page.get_by_role("grid")
    grid.focus()
    window.page.keyboard.press("Control+End")
    last = window.page.locator('.grid-row[aria-rowindex="1000001"] .grid-cell')
    expect(last).to_have_text(["999999", "row 99", "NULL"])
    assert window.page.locator(".grid-cell").count() < 400
    window.page.keyboard.press("PageUp")
    window.page.keyboard.press("Home")
    expect(window.page.locator("#active-cell")).not_to_have_text("…")
    with window.page.expect_download() as started:
        window.page.get_by_role("button", name="Download CSV").click()
    file = tmp_path / "all.csv"
    started.value.save_as(file)
    lines = file.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "id,text,nothing"
    assert lines[1:] == [f"{n},row {n % 100}," for n in range(1_000_000)]
    statement = window.page.url.rpartition("/")[2]
    assert window.page.request.delete(f"{window.url}/api/v1/statements/{statement}").ok


@pytest.mark.prove
def test_a_link_and_the_history_lead_back_to_a_statement(window: Window, table: str) -> None:
    before, sql = "SELECT 1 AS before", f"SELECT max(id) AS newest FROM {table}"
    for statement in (before, sql):
        window.open()
        window.run(statement)
        window.status("1 row")
    link = window.page.url
    assert "#/q/" in link
    window.open("#/history")
    past = window.page.locator(".history .statement")
    expect(past.first).to_have_text(sql)
    assert past.all_inner_texts()[:2] == [sql, before]  # what the page asks for itself is not there
    past.first.click()
    window.status("1 row")
    assert window.cells() == [["41"]]
    assert window.page.url == link


def test_the_page_of_a_table_shows_its_seam_as_it_moves(
    window: Window, stack: Stack, table: str
) -> None:
    window.open()
    window.page.get_by_role("link", name=table).first.click()
    window.page.get_by_role("img", name=re.compile("40 offsets in files")).wait_for()
    for text in ("price", "_kafka_offset", "rows_added"):
        expect(window.page.locator(".page", has_text=text).first).to_be_visible()
    history = re.compile("commits have moved the boundary from 0 to 40; the log ends at 42")
    expect(window.page.get_by_role("img", name=history)).to_be_visible()
    expect(window.page.get_by_text("and added 40 rows")).to_be_visible()
    before = window.page.get_by_text(re.compile(r"\d+ of \d+ offsets are only in the log"))
    assert before.inner_text().startswith("2 of 42")
    stack.produce(table, [{"id": 42, "text": "new"}])
    window.page.get_by_text("3 of 43 offsets are only in the log").wait_for()


@pytest.mark.prove
def test_the_page_of_a_table_says_what_files_say_of_its_columns(
    window: Window, stack: Stack, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint, text varchar")
    stack.produce(name, [{"id": 9007199254740993}, {"id": 2, "text": "b"}, {"id": 3}])
    stack.tier(name)
    window.open(f"#/t/lake/default/{name}")
    rows = window.page.get_by_role("region", name="Columns").get_by_role("row")
    expect(rows.nth(1)).to_contain_text("9007199254740993")
    expect(rows.nth(2)).to_contain_text("66.7 %")  # 0.6666666666666666: digits, but no whole number
    assert window.barriers() == []


@pytest.mark.prove
def test_what_was_lost_is_said_with_the_seam_and_the_receipt(
    window: Window, stack: Stack, name: str
) -> None:
    stack.create_topic(name, 1)
    stack.create_table(name, "id bigint")
    stack.produce(name, [{"id": n} for n in range(4)])
    stack.trim(name, {0: 3})
    window.open()
    window.run(f"ALTER TABLE {name} EXECUTE resume(accept_loss => true)")
    window.run(f"SELECT id FROM {name}")
    window.status("1 row")
    window.page.get_by_role("tab", name="Plan").click()
    window.page.keyboard.press("ArrowRight")
    expect(window.page.locator(".scan")).to_contain_text("3 offsets lost, as was accepted")
    window.page.get_by_role("link", name=name).first.click()
    window.page.get_by_text("3 offsets had left the log before they were tiered").wait_for()


@pytest.mark.soak
@pytest.mark.prove
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_nobody_is_kept_out(window: Window, table: str, theme: str) -> None:
    window.open()
    window.page.evaluate("theme => localStorage.setItem('seamline.theme', theme)", theme)
    window.open()
    background = window.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", background))) > 380) == (theme == "light")
    assert window.barriers() == []
    window.run(f"SELECT * FROM {table}")
    window.status("rows")
    assert window.barriers() == []
    for tab in ("Plan", "Chart", "Receipt"):
        window.page.get_by_role("tab", name=tab).click()
        window.page.locator(".content > *").first.wait_for()
        assert window.barriers() == [], tab
    window.run("SELECT nothing FROM nowhere")
    window.page.get_by_role("alert").wait_for()
    assert window.barriers() == []
    for place in (f"#/t/lake/default/{table}", "#/history", "#/running"):
        window.open(place)
        window.page.locator(".page:visible h1").wait_for()
        assert window.barriers() == [], place


WRONG = base64.b64encode(b"ann:wrong").decode()


@pytest.mark.prove
def test_who_has_to_log_in_is_asked_once(
    browser: Browser, stack: Stack, table: str, tmp_path: pathlib.Path
) -> None:
    file = tmp_path / "passwords"
    file.write_bytes(b"ann:" + bcrypt.hashpw("böse".encode(), bcrypt.gensalt(4)))
    flags = {"auth.passwords": str(file), "state_directory": str(tmp_path / "state")}
    gateway = Gateway(stack.configured(flags))
    with (
        contextlib.closing(gateway),
        contextlib.closing(browser.new_context()) as own,
    ):
        own.set_default_timeout(TIMEOUT_MS)
        window = Window(own.new_page(), gateway.url)
        late: list[Route] = []

        def delayed(route: Route) -> None:  # what the wrong password gets, until it is long over
            if WRONG in route.request.headers.get("authorization", ""):
                late.append(route)
            else:
                route.continue_()

        window.page.route("**/api/v1/info", delayed)
        window.page.goto(gateway.url)
        form = window.page.get_by_role("dialog")
        form.get_by_label("User").fill("ann")
        form.get_by_label("Password or access token").fill("wrong")
        window.page.keyboard.press("Enter")
        form.get_by_text("password").first.wait_for()
        form.get_by_label("User").fill("ann")
        form.get_by_label("Password or access token").fill("böse")
        window.page.keyboard.press("Enter")
        window.page.get_by_role("link", name=table).first.wait_for()
        assert late
        for route in late:
            with window.page.expect_response("**/api/v1/info") as refused:
                route.continue_()
            assert refused.value.status == 401
        window.run(f"SELECT count(*) FROM {table}")
        window.status("1 row")
        assert form.count() == 0
        assert window.errors == []


@pytest.mark.prove
def test_a_gateway_that_is_gone_is_named(
    browser: Browser, stack: Stack, tmp_path: pathlib.Path
) -> None:
    gateway = Gateway(stack.configured({"state_directory": str(tmp_path)}))
    with contextlib.closing(browser.new_context()) as own:
        window = Window(own.new_page(), gateway.url)
        window.open()
        gateway.close()
        window.run("SELECT 1")
        window.page.get_by_role("alert").filter(has_text="GATEWAY_UNAVAILABLE").wait_for()


def test_the_page_may_run_nothing_but_its_own_files(window: Window) -> None:
    answer = window.page.goto(window.url)
    assert answer is not None
    policy = answer.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert window.page.content().count("<script") == 1

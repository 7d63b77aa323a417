"""Goal: Trino's Python client works unchanged, and the protocol keeps what it promises beyond it.

Method: the client that Trino publishes, over HTTP; what it does not look at (addresses, slugs,
pages asked for twice, headers) is asked for by hand. The gateway has a catalog in one file and a
cluster that nobody answers for.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import importlib
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus, urlsplit

import pytest
import trino
import zstandard
from fakes.late import LateSpool
from support import offline
from support.cutting import cutting
from support.gateway import Gateway
from support.trino_clients import VALUES, written
from trino.exceptions import TrinoUserError
from trino.transaction import IsolationLevel

from seamline.gateway.access.authentication import ANONYMOUS
from seamline.gateway.access.rights import Principal
from seamline.gateway.statements.service import QUIET_S
from seamline.gateway.trino import segments
from seamline.gateway.trino.pages import PAGE_BYTES

lz4_block: Any = importlib.import_module("lz4.block")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    running = Gateway(offline.config(tmp_path_factory.mktemp("trino")))
    running.rows("CREATE TABLE plain (id bigint, text varchar)")
    running.rows("INSERT INTO plain VALUES (1, 'a'), (2, 'ü')")
    yield running
    running.close()


def connect(gateway: Gateway, **options: Any) -> Any:
    address = urlsplit(options.pop("url", gateway.url))
    defaults = {"user": "ann", "catalog": "lake", "schema": "default"}
    made: Any = trino.dbapi.connect
    return made(host=address.hostname, port=address.port, **(defaults | options))


@pytest.fixture
def cursor(gateway: Gateway) -> Iterator[Any]:
    with connect(gateway) as connection:
        yield connection.cursor()


def rows(cursor: Any, sql: str, parameters: Any = None) -> list[Any]:
    return [tuple(row) for row in cursor.execute(sql, parameters).fetchall()]


# --- Types ---------------------------------------------------------------------------------------


@pytest.mark.one_in(test=2)
@pytest.mark.parametrize(("sql", "type_", "value"), VALUES, ids=[sql for sql, *_ in VALUES])
def test_every_type_and_its_null(cursor: Any, sql: str, type_: str, value: Any) -> None:
    found = rows(cursor, f"SELECT {sql} AS x UNION ALL SELECT NULL WHERE {sql} IS NOT NULL")
    assert [column[:2] for column in cursor.description] == [("x", written(type_))]
    assert [repr(row[0]) for row in found[:1]] == [repr(value)] or found[0][0] == value
    assert found[1:] == ([(None,)] if value is not None else [])


TIMES = (
    "SELECT TIMESTAMP '2024-02-29 01:02:03.123456' AS at, ARRAY[TIME '01:02:03.5'] AS times,"
    " CAST(ROW(TIMESTAMP '2024-02-29 01:02:03.5 UTC') AS"
    " row(\"time(3)\" timestamp(1) with time zone)) AS nested, DECIMAL '1.50' AS price"
)
NAMED = 'row("time(3)" timestamp{} with time zone)'
PRECISE = ["timestamp(6)", "array(time(1))", NAMED.format("(1)"), "decimal(3, 2)"]
BARE = ["timestamp", "array(time)", NAMED.format(""), "decimal(3, 2)"]


@pytest.mark.parametrize(
    ("capabilities", "types", "numbers"),
    [("PATH, PARAMETRIC_DATETIME", PRECISE, 5), ("PATH", BARE, 2), ("", BARE, 2)],
)
def test_clients_that_know_no_precisions_get_bare_types(
    gateway: Gateway, capabilities: str, types: list[str], numbers: int
) -> None:
    """They look types up by name. All digits are there, on every page."""
    client: Any = gateway.app.test_client()
    headers = {"X-Trino-Client-Capabilities": capabilities}
    answer = client.post("/v1/statement", data=TIMES, headers=headers).json
    found: list[Any] = []
    described = 0
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
        found += answer.get("data", [])
        if columns := answer.get("columns"):
            described += 1
            assert [column["type"] for column in columns] == types
            signatures = json.dumps([column["typeSignature"] for column in columns])
            assert signatures.count('"LONG"') == numbers
    assert described > 1
    at, times, nested, _ = found[0]
    assert (at, times, nested) == (
        *("2024-02-29 01:02:03.123456", ["01:02:03.5"]),
        ["2024-02-29 01:02:03.5 UTC"],
    )


# --- Encodings -----------------------------------------------------------------------------------


def test_the_first_encoding_that_is_known_is_chosen() -> None:
    assert segments.chosen("json+zstd") == "json+zstd"
    assert segments.chosen("arrow,json+lz4 ,json+zstd,json") == "json+lz4"
    assert segments.chosen("json, json+zstd") == "json"
    assert segments.chosen("") is None
    assert segments.chosen(",arrow, json+gzip") is None


@pytest.mark.parametrize("encoding", ["json+zstd", "json+lz4", "json", "unheard-of"])
def test_segments_say_where_they_are(gateway: Gateway, encoding: str) -> None:
    """Where their rows are in the result, and how large they are. Some come plain."""
    client: Any = gateway.app.test_client()
    headers = {"X-Trino-Query-Data-Encoding": encoding}
    sql = "SELECT a, rpad('x', 300, 'ä') FROM UNNEST(sequence(1, 4000)) t(a) ORDER BY a"
    answer = client.post("/v1/statement", data=sql, headers=headers).json
    found: list[Any] = []
    pages = 0
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
        data = answer.get("data", [])
        pages += "data" in answer
        if isinstance(data, list):
            found += data
            continue
        assert data["encoding"] == encoding
        (segment,) = data["segments"]
        assert segment["metadata"]["rowOffset"] == len(found)
        read = decoded(encoding, base64.b64decode(segment["data"]), segment["metadata"])
        assert segment["metadata"]["rowsCount"] == len(read)
        found += read
    assert pages > 1
    assert [number for number, _ in found] == list(range(1, 4001))


def decoded(encoding: str, content: bytes, metadata: dict[str, int]) -> Any:
    assert metadata["segmentSize"] == len(content)
    size = metadata.get("uncompressedSize")
    assert (size is None) == (encoding == "json")
    if encoding == "json+zstd":
        content = zstandard.ZstdDecompressor().decompress(content)
    if encoding == "json+lz4":
        content = lz4_block.decompress(content, uncompressed_size=size)
    assert size in (None, len(content))
    return json.loads(content)


# --- Statements ----------------------------------------------------------------------------------


def test_parameters(cursor: Any) -> None:
    sql = "SELECT id, ?, ? FROM plain WHERE text = ?"
    day = datetime.date(2024, 2, 29)
    assert rows(cursor, sql, (decimal.Decimal("1.50"), day, "ü")) == [
        (2, decimal.Decimal("1.50"), day)
    ]
    east = datetime.time(10, 0, 0, 5, datetime.timezone(datetime.timedelta(hours=2)))
    assert rows(cursor, "SELECT ?, typeof(?)", (east, east)) == [(east, "time(6) with time zone")]
    hostile = "' OR 1=1 --"
    assert rows(cursor, "SELECT count(*) FROM plain WHERE text = ?", (hostile,)) == [(0,)]


def test_an_insert_is_counted(cursor: Any) -> None:
    rows(cursor, "CREATE TABLE more (id bigint)")
    assert cursor.update_type == "CREATE TABLE"
    assert rows(cursor, "INSERT INTO more VALUES 1, 2, 3") == [(3,)]
    assert (cursor.update_type, cursor.rowcount) == ("INSERT", 3)
    assert rows(cursor, "SELECT sum(id) FROM more") == [(6,)]
    assert cursor.update_type is None


def test_the_session_is_the_client_s(gateway: Gateway, cursor: Any) -> None:
    rows(cursor, "SET SESSION row_limit = 1")
    assert rows(cursor, "SELECT id FROM plain") in ([(1,)], [(2,)])
    rows(cursor, "RESET SESSION row_limit")
    assert len(rows(cursor, "SELECT id FROM plain")) == 2
    rows(cursor, "USE lake.information_schema")
    assert ("plain",) in rows(cursor, "SELECT table_name FROM tables")
    rows(cursor, "PREPARE p FROM SELECT ? + 1")
    assert rows(cursor, "EXECUTE p USING 41") == [(42,)]
    assert rows(cursor, "DESCRIBE INPUT p")[0][0] == 0
    assert rows(cursor, "DESCRIBE OUTPUT p")[0][0] == "_col0"
    rows(cursor, "DEALLOCATE PREPARE p")
    with pytest.raises(trino.exceptions.TrinoUserError, match="prepared statement p"):
        rows(cursor, "EXECUTE p USING 41")
    other = connect(gateway).cursor()
    assert len(rows(other, "SELECT * FROM plain")) == 2


def test_a_token_travels_in_the_session(gateway: Gateway, cursor: Any) -> None:
    rows(cursor, "CREATE TABLE seen (id bigint)")
    rows(cursor, "INSERT INTO seen VALUES 1")
    with gateway.connect() as connection:  # receipts are not part of this protocol
        token = connection.execute("SELECT * FROM seen").token
    rows(cursor, "INSERT INTO seen VALUES 2")
    rows(cursor, f"SET SESSION token = '{token}'")
    assert rows(cursor, "SELECT * FROM seen") == [(1,)]
    rows(cursor, "RESET SESSION token")
    assert sorted(rows(cursor, "SELECT * FROM seen")) == [(1,), (2,)]


def test_transactions_are_words(gateway: Gateway, cursor: Any) -> None:
    with connect(gateway, isolation_level=IsolationLevel.SERIALIZABLE) as connection:
        within = connection.cursor()
        assert rows(within, "SELECT count(*) FROM plain") == [(2,)]
        with pytest.raises(trino.exceptions.TrinoUserError, match="autocommit"):
            rows(within, "INSERT INTO plain VALUES (9, 'x')")
        connection.commit()
        assert rows(connection.cursor(), "SELECT count(*) FROM plain") == [(2,)]
        connection.rollback()
    for sql in ("COMMIT", "ROLLBACK WORK"):
        with pytest.raises(trino.exceptions.TrinoUserError, match="not in a transaction"):
            rows(cursor, sql)
    with gateway.connect() as ours, pytest.raises(Exception, match="START TRANSACTION is not"):
        ours.execute("START TRANSACTION READ ONLY")


def test_errors_have_trino_s_names_and_their_places(cursor: Any) -> None:
    with pytest.raises(trino.exceptions.TrinoUserError) as caught:
        rows(cursor, "SELECT id,\n  nothing FROM plain")
    found = caught.value
    assert (found.error_name, found.error_type) == ("COLUMN_NOT_FOUND", "USER_ERROR")
    assert found.error_code == 47
    assert found.message.startswith("line 2:3: Column 'nothing' cannot be resolved\n")
    assert found.error_exception == "seamline.COLUMN_NOT_FOUND"
    for sql, said in (
        ("SELECT * FROM nothing", "Table 'lake.default.nothing' does not exist"),
        ("USE nothing", "Schema 'nothing' does not exist"),
        ("SHOW TABLES FROM lake.nothing", "Schema 'nothing' does not exist"),
        ("SELECT * FROM nothing.t.u", "Catalog 'nothing' not found"),
    ):
        with pytest.raises(trino.exceptions.TrinoUserError, match=said):
            rows(cursor, sql)
    for sql, name in (
        ("", "SYNTAX_ERROR"),
        ("SELECT 1; SELECT 2", "SYNTAX_ERROR"),
        ("SELECT * FROM nothing", "TABLE_NOT_FOUND"),
        ("CREATE TABLE plain (id bigint)", "TABLE_ALREADY_EXISTS"),
        ("SELECT CAST('a' AS bigint)", "INVALID_CAST_ARGUMENT"),
        ("EXECUTE nothing", "NOT_FOUND"),
        ("SELECT id, count(*) FROM plain", "GROUPING_ERROR"),
        ("SELECT 1 / 0", "DIVISION_BY_ZERO"),
        ("SET SESSION nothing = 1", "INVALID_SESSION_PROPERTY"),
        ("GRANT SELECT ON plain TO ann", "NOT_SUPPORTED"),
    ):
        with pytest.raises(trino.exceptions.TrinoUserError) as caught:
            rows(cursor, sql)
        assert caught.value.error_name == name


def test_many_rows_in_pages(cursor: Any) -> None:
    sql = (
        "SELECT a * 1000 + b, concat('row ', CAST(a AS varchar))"
        " FROM UNNEST(sequence(0, 199)) t(a) CROSS JOIN UNNEST(sequence(0, 999)) u(b)"
    )
    found = rows(cursor, sql)
    assert len(found) == 200_000
    assert {row[0] for row in found} == set(range(200_000))


def test_explain_analyze_answers_with_lines_alone(cursor: Any) -> None:
    (*_, (last,)) = rows(cursor, "EXPLAIN ANALYZE SELECT * FROM UNNEST(sequence(1, 1000))")
    assert [column[0] for column in cursor.description] == ["Query Plan"]
    assert "1,000 rows" in last


# --- By hand -------------------------------------------------------------------------------------


def test_pages_can_be_asked_for_again(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    sql = "SELECT rpad('x', 1000, 'ä') FROM UNNEST(sequence(1, 5000)) t(a)"
    answer = client.post("/v1/statement", data=sql).json
    count = 0
    while "nextUri" in answer:
        address = answer["nextUri"]
        page = client.get(address)
        again = client.get(address)
        if "data" in page.json:
            assert again.json["data"] == page.json["data"]
            assert len("".join(map(str, page.json["data"]))) < 2 * PAGE_BYTES
        count += len(page.json.get("data", ()))
        answer = page.json
    assert count == 5000
    assert "data" not in answer
    assert answer["stats"]["state"] == "FINISHED"
    assert answer["stats"]["progressPercentage"] == 100.0
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


def test_a_client_that_is_busy_says_that_it_will_come_back(gateway: Gateway) -> None:
    """With HEAD, which fetches nothing: the last page has not been handed over."""
    client: Any = gateway.app.test_client()
    answer = client.post("/v1/statement", data="SELECT 1").json
    statement = gateway.service.statement(answer["id"], Principal(ANONYMOUS))
    gateway.service.start(statement)
    statement.wait(60)
    touched_at = statement.touched_at
    handed_over = []
    found = client.head(answer["nextUri"])
    assert (found.status_code, found.data) == (200, b"")
    assert statement.touched_at > touched_at
    handed_over.append(statement.handed_over)
    while "nextUri" in answer:
        address = answer["nextUri"]
        answer = client.get(address).json
    handed_over.append(statement.handed_over)
    assert handed_over == [False, True]
    assert client.delete(address).status_code == 204
    assert client.head(address).status_code == 404


@pytest.mark.parametrize("is_reset", [False, True])
def test_a_submission_that_got_no_answer_may_be_sent_again(
    gateway: Gateway, cursor: Any, *, is_reset: bool
) -> None:
    """Python's client does so by itself. What nobody knows the first page of has no effect."""
    with cutting(gateway.url, 0, is_reset=is_reset) as network:
        with connect(gateway, url=network.url) as connection:
            written = connection.cursor().execute("INSERT INTO plain VALUES (77, 'once')")
            assert written.fetchall() == [[1]]
        assert network.cut == 1
    assert rows(cursor, "SELECT count(*) FROM plain WHERE id = 77") == [(1,)]
    rows(cursor, "DELETE FROM plain WHERE id = 77")


def test_what_was_only_submitted_does_not_hold_up_anybody(gateway: Gateway) -> None:
    """It can be canceled; and a gateway that stops waits for it only while its client may come."""
    client: Any = gateway.app.test_client()
    answer = client.post("/v1/statement", data="INSERT INTO plain VALUES (78, 'never')").json
    statement = gateway.service.statement(answer["id"], Principal(ANONYMOUS))
    assert (answer["stats"]["state"], statement.started_at) == ("QUEUED", None)
    assert statement.is_wanted(QUIET_S)
    assert not statement.is_wanted(0.0)
    assert client.delete(answer["nextUri"]).status_code == 204
    assert not statement.is_wanted(QUIET_S)
    assert client.get(answer["nextUri"]).json["error"]["errorName"] == "USER_CANCELED"
    assert gateway.rows("SELECT count(*) FROM plain WHERE id = 78") == [(0,)]


@pytest.mark.parametrize(
    "sql", ["SELECT 1", "CREATE TABLE paged AS SELECT 1 AS a", "SHOW CATALOGS"]
)
def test_the_last_page_has_no_rows(gateway: Gateway, sql: str) -> None:
    """As with Trino; connectorx reads the rows of a last page twice."""
    client: Any = gateway.app.test_client()
    pages = [client.post("/v1/statement", data=sql).json]
    while "nextUri" in pages[-1]:
        pages.append(client.get(pages[-1]["nextUri"]).json)
    assert [page["data"] for page in pages if "data" in page] != []
    assert "data" not in pages[-1]
    assert pages[-1]["columns"] == pages[-2]["columns"]


def test_a_chunk_that_comes_just_after_the_time_is_up_is_not_lost(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    answer = client.post("/v1/statement", data="SELECT 1").json
    statement = gateway.service.statement(answer["id"], Principal(ANONYMOUS))
    gateway.service.start(statement)
    statement.wait(60)
    assert statement.spool is not None
    late: Any = LateSpool(statement.spool)
    statement._spool = late  # it has ended; `opened` would release what comes then
    found = []
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
        found += answer.get("data", [])
    assert (late.has_looked, found) == (True, [[1]])


def test_addresses_cannot_be_made_up(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    answer = client.post("/v1/statement", data="SELECT 1").json
    path = urlsplit(answer["nextUri"]).path
    _, _, _, statement_id, slug, *_ = path.split("/")
    for wrong in (path.replace(slug, "0" * len(slug)), path.replace(statement_id, "x")):
        for method in (client.get, client.delete):
            refused = method(wrong)
            assert refused.status_code == 404
            assert refused.json["error"]["code"] == "STATEMENT_NOT_FOUND"
    assert client.get(path).status_code == 200


def test_a_statement_is_ended(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    sql = (
        "WITH t AS (SELECT x FROM UNNEST(sequence(1, 10000)) AS t(x))"
        " SELECT count(*) FROM t a, t b, t c WHERE a.x + b.x + c.x = -1"
    )
    for by_id in (False, True):
        answer = client.post("/v1/statement", data=sql).json
        state = f"/v1/query/{answer['id']}"
        answer = client.get(answer["nextUri"]).json  # from then on it runs
        address = state if by_id else answer["nextUri"]
        assert client.delete(address).status_code == 204
        while "nextUri" in answer:
            answer = client.get(answer["nextUri"]).json
        assert answer["error"]["errorName"] == "USER_CANCELED"
        assert answer["error"]["failureInfo"]["type"] == "seamline.CANCELED"
        assert client.get(state).json["state"] == "FAILED"


def test_columns_come_before_the_first_row(gateway: Gateway) -> None:
    """So that a driver has a result that it can cancel, while the engine still works."""
    client: Any = gateway.app.test_client()
    sql = (
        "SELECT count(*) AS n, 'x' AS text FROM UNNEST(sequence(1, 10000)) a(x),"
        " UNNEST(sequence(1, 10000)) b(x), UNNEST(sequence(1, 10000)) c(x) WHERE a.x + b.x = -c.x"
    )
    answer = client.post("/v1/statement", data=sql).json
    while "columns" not in answer:
        assert "error" not in answer
        answer = client.get(answer["nextUri"]).json
    assert [(column["name"], column["type"]) for column in answer["columns"]] == [
        ("n", "bigint"),
        ("text", "varchar"),
    ]
    assert "data" not in answer
    assert answer["stats"]["state"] == "RUNNING"
    assert client.delete(answer["nextUri"]).status_code == 204
    while "nextUri" in answer:
        answer = client.get(answer["nextUri"]).json
    assert answer["error"]["errorName"] == "USER_CANCELED"
    assert "columns" not in answer


def test_a_statement_that_is_ended_by_its_id_has_ended(gateway: Gateway) -> None:
    """Trino's client for JavaScript asks for its state right after that."""
    client: Any = gateway.app.test_client()
    sql = (
        "SELECT count(*) FROM UNNEST(sequence(1, 10000)) a(x), UNNEST(sequence(1, 10000)) b(x),"
        " UNNEST(sequence(1, 10000)) c(x) WHERE a.x + b.x + c.x = -1"
    )
    headers = {"X-Trino-Source": "tests", "X-Trino-Client-Tags": "foo%20,bar=baz"}
    answer = client.post("/v1/statement", data=sql, headers=headers).json
    client.get(answer["nextUri"])
    statement_id = answer["id"]
    assert client.delete(f"/v1/query/{statement_id}").status_code == 204
    state = client.get(f"/v1/query/{statement_id}").json
    assert (state["state"], state["query"]) == ("FAILED", sql)
    assert state["failureInfo"]["message"].startswith("the statement was canceled")
    assert (state["errorCode"]["name"], state["errorType"]) == ("USER_CANCELED", "USER_ERROR")
    assert state["session"]["clientTags"] == ["foo%20", "bar=baz"]


def test_what_is_changed_travels_in_headers(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()

    def headers(sql: str, **given: str) -> dict[str, str]:
        sent = {f"X-Trino-{name.replace('_', '-')}": value for name, value in given.items()}
        answer = client.post("/v1/statement", data=sql, headers=sent)
        while "nextUri" in answer.json:
            answer = client.get(answer.json["nextUri"])
        assert "error" not in answer.json, answer.json
        prefix = "X-Trino-"
        return {
            name.removeprefix(prefix): value
            for name, value in answer.headers
            if name.startswith(prefix)
        }

    assert headers("USE lake.information_schema") == {
        "Set-Catalog": "lake",
        "Set-Schema": "information_schema",
    }
    assert headers("SET SESSION freshness = 'bounded ''5s'''") == {
        "Set-Session": "freshness=bounded+%275s%27"
    }
    assert headers("RESET SESSION freshness") == {"Clear-Session": "freshness"}
    assert headers("PREPARE a FROM SELECT ', =?'") == {"Added-Prepare": "a=SELECT+%27%2C+%3D%3F%27"}
    assert headers("DEALLOCATE PREPARE a", Prepared_Statement="b=x,a=SELECT+1") == {
        "Deallocated-Prepare": "a"
    }
    (begun,) = headers("START TRANSACTION", Transaction_Id="NONE").items()
    assert begun[0] == "Started-Transaction-Id"
    assert headers("COMMIT", Transaction_Id=begun[1]) == {"Clear-Transaction-Id": "true"}


@pytest.mark.parametrize("letter", ["x", "ä", "'"])
def test_what_no_header_carries_cannot_be_prepared(cursor: Any, letter: str) -> None:
    """Letters take one, six or three bytes of a header, which has a little more than 60,000."""
    width = len(quote_plus(letter))
    held = letter * (2 * (29_900 // width))
    rows(cursor, f"PREPARE a FROM SELECT '{held}'")
    much = letter * (2 * (30_100 // width))
    with pytest.raises(TrinoUserError) as caught:
        rows(cursor, f"PREPARE a FROM SELECT '{much}'")
    assert caught.value.error_name == "QUERY_TEXT_TOO_LARGE"
    assert "EXECUTE IMMEDIATE" in str(caught.value.message)


def test_the_gateway_says_who_it_is(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    info = client.get("/v1/info").json
    assert info["environment"].startswith("seamline ")
    assert info["nodeVersion"]["version"].isdecimal()
    assert client.get("/v1/info/state").json == "ACTIVE"
    assert client.get("/v1/node").json == []


def test_statements_are_listed(gateway: Gateway) -> None:
    client: Any = gateway.app.test_client()
    texts = ["SELECT 'listed'", "SELECT nothing FROM plain"]
    for text in texts:
        answer = client.post("/v1/statement", data=text).json
        while "nextUri" in answer:
            answer = client.get(answer["nextUri"]).json

    def listed(state: str) -> list[str]:
        return [each["query"] for each in client.get(f"/v1/query{state}").json]

    assert listed("")[:2] == texts[::-1]
    assert texts[0] in listed("?state=FINISHED")
    assert texts[1] not in listed("?state=finished")
    assert texts[1] in listed("?state=failed")
    assert not set(texts) & set(listed("?state=queued"))


def test_addresses_are_as_clients_reach_the_gateway(tmp_path: Any) -> None:
    running = Gateway(offline.config(tmp_path, http__external_url="https://lake.example/sql/"))
    try:
        client: Any = running.app.test_client()
        answer = client.post("/v1/statement", data="SELECT 1").json
        assert answer["nextUri"].startswith("https://lake.example/sql/v1/statement/")
        assert answer["infoUri"].startswith("https://lake.example/sql/#/q/")
    finally:
        running.close()

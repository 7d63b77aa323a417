"""Goal: Flight SQL does what its clients count on, and every wrong input has a named error.

Method: the real server over an empty catalog, called by a client that may send any bytes. What the
published drivers make of it is in the integration tests.
"""

from __future__ import annotations

import datetime
import pathlib
import re
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.flight
import pytest
from fakes.late import LateSpool
from support import offline
from support.flight import RawFlight, bound
from support.gateway import Gateway
from support.waiting import wait_until

from seamline.errors import (
    CANCELED,
    ERRORS,
    INTERNAL_ERROR,
    NOT_SUPPORTED,
    PERMISSION_DENIED,
    SYNTAX_ERROR,
    TABLE_NOT_FOUND,
    UNAUTHENTICATED,
    SeamlineError,
)
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.load import load
from seamline.gateway.flight import messages
from seamline.gateway.flight.flight_data import MESSAGE_BYTES, flight_data
from seamline.gateway.flight.silence import Silence
from seamline.gateway.flight.statuses import status_of
from seamline.gateway.statements.statement import State

ENDLESS = (
    "SELECT count(*) FROM "
    + " CROSS JOIN ".join(f"UNNEST(sequence(1, 10000)) {t}({t})" for t in "uvwx")
    + " WHERE u + v + w + x = -1"
)
ANONYMOUS = Principal("anonymous")


@pytest.fixture
def client(offline_gateway: Gateway) -> Iterator[RawFlight]:
    made = RawFlight.at(offline_gateway.flight_url)
    with made.client:
        yield made


def said(work: Callable[[], object]) -> str:
    """The first line of the error that a call ends with."""
    with pytest.raises((pa.ArrowException, pa.flight.FlightError, NotImplementedError)) as caught:
        work()
    return str(caught.value).splitlines()[0]


# --- Statements ----------------------------------------------------------------------------------


def test_a_query_tells_its_columns_and_gives_its_rows(client: RawFlight) -> None:
    info = client.info("CommandStatementQuery", query="SELECT 1 AS a, 'x' AS b")
    assert info.schema == pa.schema([("a", pa.int32()), ("b", pa.string())])
    assert client.rows(info) == pa.table({"a": [1], "b": ["x"]}, info.schema)


def test_rows_are_given_once(client: RawFlight) -> None:
    info = client.info("CommandStatementQuery", query="SELECT 1")
    client.rows(info)
    assert "STATEMENT_NOT_FOUND" in said(lambda: client.rows(info))


def test_a_chunk_that_comes_just_after_the_time_is_up_is_not_lost(
    offline_gateway: Gateway, client: RawFlight
) -> None:
    info = client.info("CommandStatementQuery", query="SELECT 'late' AS a")
    (statement,) = (
        s for s in offline_gateway.service.statements(ANONYMOUS) if "late" in s.request.statement
    )
    statement.wait(60)
    assert statement.spool is not None
    late: Any = LateSpool(statement.spool)
    statement._spool = late  # it has ended; `opened` would release what comes then
    assert client.rows(info) == pa.table({"a": ["late"]})
    assert late.has_looked


def test_a_result_of_many_chunks_comes_whole(client: RawFlight) -> None:
    sql = "SELECT a.n * 1000 + b.n AS id FROM UNNEST(sequence(0, 999)) a(n)"
    sql += " CROSS JOIN UNNEST(sequence(0, 299)) b(n)"
    found = client.query(sql).column(0)
    assert sorted(found.to_pylist()) == sorted(
        a * 1000 + b for a in range(1000) for b in range(300)
    )


def test_a_statement_that_fails_after_its_first_rows_says_so(client: RawFlight) -> None:
    sql = "SELECT 1 / (a.n * 1000 + b.n - 900000) FROM UNNEST(sequence(0, 999)) a(n)"
    sql += " CROSS JOIN UNNEST(sequence(0, 999)) b(n)"
    assert "DIVISION_BY_ZERO" in said(lambda: client.query(sql))


def test_what_changes_something_says_how_much_and_has_no_rows(client: RawFlight) -> None:
    info = client.info("CommandStatementQuery", query="SET SESSION engine = 'duckdb'")
    assert (info.schema, info.total_records) == (pa.schema([]), 0)
    assert client.rows(info).num_columns == 0
    update = messages.packed("CommandStatementUpdate", query="SET SESSION engine = 'duckdb'")
    assert messages.read("DoPutUpdateResult", client.put(update)).record_count == 0
    query = messages.packed("CommandStatementUpdate", query="SELECT 1")
    assert "STATEMENT_NOT_ALLOWED" in said(lambda: client.put(query))


def test_columns_are_told_and_nothing_runs(client: RawFlight, offline_gateway: Gateway) -> None:
    before = len(offline_gateway.service.summaries(ANONYMOUS))
    command = messages.packed(
        "CommandStatementQuery", query="SELECT CAST(? AS bigint) AS x, NULL n"
    )
    descriptor = pa.flight.FlightDescriptor.for_command(command)
    found = client.client.get_schema(descriptor, client.options).schema
    assert found == pa.schema([("x", pa.int64()), ("n", pa.null())])
    assert len(offline_gateway.service.summaries(ANONYMOUS)) == before


def test_columns_come_before_rows_to_whoever_sets_no_deadline(offline_gateway: Gateway) -> None:
    """Drivers look at a time of their own once they have columns."""
    cookies = Cookies(offline_gateway.flight_url)
    sql = ENDLESS.replace("count(*)", "count(*) AS before_rows")
    info = cookies.begin(sql, timeout=None).result(60)
    running = offline_gateway.running(about="before_rows")
    rows = cookies.channel.unary_stream(
        "/arrow.flight.protocol.FlightService/DoGet",
        request_serializer=lambda message: message.SerializeToString(),
    )(info.endpoint[0].ticket, timeout=1)
    with pytest.raises(grpc.RpcError):
        next(rows)
    wait_until(lambda: running.state is State.CANCELED, 30, "the end of the statement")


def test_columns_have_the_sizes_that_jdbc_asks_for(client: RawFlight) -> None:
    sql = (
        "SELECT DECIMAL '12.345' AS d, uuid() AS u, 'x' AS t, TIMESTAMP '2024-01-01 00:00:00' AS m"
    )
    info = client.info("CommandStatementQuery", query=sql)
    assert info.schema.equals(client.rows(info).schema, check_metadata=True)
    wanted = ("TYPE_NAME", "PRECISION", "SCALE", "IS_CASE_SENSITIVE")
    said = [
        tuple((field.metadata or {}).get(f"ARROW:FLIGHT:SQL:{name}".encode()) for name in wanted)
        for field in info.schema
    ]
    assert said == [
        (b"decimal(5,3)", b"5", b"3", b"0"),
        (b"uuid", None, None, b"0"),
        (b"varchar", b"2147483647", None, b"1"),
        (b"timestamp(0)", b"19", b"0", b"0"),
    ]


def test_every_number_of_the_specification_has_a_value(client: RawFlight) -> None:
    found = client.rows(client.info("CommandGetSqlInfo"))
    numbers = {*range(12), 100, 101, *range(500, 577)}
    names = found.column("info_name").to_pylist()
    assert set(names) == numbers
    values = dict(zip(names, found.column("value").to_pylist(), strict=True))
    assert values[0] == "Seamline"
    assert "LISTAGG" in values[508]
    assert ("abs" in values[509], "lower" in values[510], "date_trunc" in values[512]) == (
        True,
    ) * 3
    assert values[528] == 0b110
    kinds = found.column("value").combine_chunks().type_codes.to_pylist()
    longs = {number for number, kind in zip(names, kinds, strict=True) if kind == 2}
    assert longs == {*range(541, 556), *range(557, 563)}


@pytest.mark.parametrize(
    ("command", "asked"),
    [
        ("CommandGetDbSchemas", {"db_schema_filter_pattern": "nowhere"}),
        ("CommandGetTables", {"table_name_filter_pattern": "nothing"}),
        ("CommandGetTables", {"table_name_filter_pattern": "nothing", "include_schema": True}),
        ("CommandGetXdbcTypeInfo", {"data_type": 12345}),
        ("CommandGetSqlInfo", {"info": [123456]}),
    ],
    ids=str,
)
def test_a_list_of_nothing_is_empty(client: RawFlight, command: str, asked: dict[str, Any]) -> None:
    """ADBC asks for the columns of a table with `include_schema`, and learns that it is missing."""
    info = client.info(command, **asked)
    found = client.rows(info)
    assert (found.num_rows, found.schema) == (0, info.schema)


# --- Prepared statements -------------------------------------------------------------------------


def test_a_prepared_query_takes_values(client: RawFlight) -> None:
    made = client.prepare("SELECT CAST(? AS bigint) + 1 AS x, CAST(? AS varchar) AS y")
    columns = pa.ipc.read_schema(pa.py_buffer(made.dataset_schema))
    parameters = pa.ipc.read_schema(pa.py_buffer(made.parameter_schema))
    assert columns == pa.schema([("x", pa.int64()), ("y", pa.string())])
    assert [field.type for field in parameters] == [pa.int64(), pa.string()]
    assert not made.is_update
    for value in (41, 7):
        found = bound(client, made.prepared_statement_handle, [value, "ü"])
        assert found.to_pylist() == [{"x": value + 1, "y": "ü"}]


def test_parameters_have_the_types_that_clients_bind(client: RawFlight) -> None:
    """A driver that knows only milliseconds is told of them; a UUID is a text."""
    made = client.prepare(
        "SELECT CAST(? AS timestamp(6)), CAST(? AS time(6)), CAST(? AS timestamp with time zone)"
        ", UUID '6f9619ff-8b86-d011-b42d-00c04fc964ff' = ?"
    )
    parameters = pa.ipc.read_schema(pa.py_buffer(made.parameter_schema))
    assert [field.type for field in parameters] == [
        pa.timestamp("ms"), pa.time32("ms"), pa.timestamp("ms", "UTC"), pa.string()
    ]  # fmt: skip
    at = datetime.datetime(2024, 2, 29, 1, 2, 3, 123456)
    values = [at, at.time(), at.replace(tzinfo=datetime.UTC)]
    handle = made.prepared_statement_handle
    found = bound(client, handle, [*values, "6f9619ff-8b86-d011-b42d-00c04fc964ff"])
    assert list(found.to_pylist()[0].values()) == [*values, True]
    assert "INVALID_PARAMETERS" in said(lambda: bound(client, handle, [*values, "no uuid"]))


def test_values_may_have_names(client: RawFlight) -> None:
    made = client.prepare("SELECT CAST(:b AS varchar) || :a AS x")
    command = messages.packed(
        "CommandPreparedStatementQuery", prepared_statement_handle=made.prepared_statement_handle
    )
    client.put(command, pa.table({"a": ["1"], "b": ["2"]}))
    assert client.rows(client.info_of(command)).to_pylist() == [{"x": "21"}]


def test_a_prepared_statement_says_what_kind_it_is(client: RawFlight) -> None:
    def kind(sql: str) -> tuple[bool, list[str]]:
        made = client.prepare(sql)
        columns = pa.ipc.read_schema(pa.py_buffer(made.dataset_schema))
        return made.is_update, columns.names

    assert kind("EXPLAIN SELECT 1") == (False, ["Query Plan"])
    assert kind("EXPLAIN (TYPE VALIDATE) SELECT 1") == (False, ["Valid"])
    assert kind("SHOW CATALOGS") == (False, ["Catalog"])
    assert kind("SET SESSION engine = 'spark'") == (True, [])
    assert "EXECUTE itself cannot be prepared" in said(lambda: client.prepare("EXECUTE x"))
    assert "SYNTAX_ERROR" in said(lambda: client.prepare("SELEC 1"))


def test_a_prepared_statement_is_forgotten_when_it_is_closed(client: RawFlight) -> None:
    handle = client.prepare("SELECT 1").prepared_statement_handle
    body = messages.packed("ActionClosePreparedStatementRequest", prepared_statement_handle=handle)
    assert client.action("ClosePreparedStatement", body) == []
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    assert "PREPARED_STATEMENT_NOT_FOUND" in said(lambda: client.info_of(command))


def test_a_query_takes_one_row_of_values(client: RawFlight) -> None:
    handle = client.prepare("SELECT CAST(? AS bigint)").prepared_statement_handle
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    client.put(command, pa.table({"0": [1, 2]}))
    assert "2 rows of parameters" in said(lambda: client.info_of(command))
    client.put(command, pa.table({"0": [1], "1": [2]}))
    assert "INVALID_PARAMETERS" in said(lambda: client.info_of(command))


# --- Ending --------------------------------------------------------------------------------------


def test_a_client_that_goes_away_ends_its_statement(
    offline_gateway: Gateway,
) -> None:
    call = Cookies(offline_gateway.flight_url).begin(ENDLESS)
    running = offline_gateway.running()
    call.cancel()
    wait_until(lambda: running.state is State.CANCELED, 30, "the end of the statement")


def test_a_statement_is_ended_by_another_call(client: RawFlight, offline_gateway: Gateway) -> None:
    told: list[str] = []
    thread = threading.Thread(target=lambda: told.append(said(lambda: client.query(ENDLESS))))
    thread.start()
    running = offline_gateway.running()
    ticket = messages.packed("TicketStatementQuery", statement_handle=running.statement_id.encode())
    endpoint = messages.new("FlightEndpoint", ticket=messages.new("Ticket", ticket=ticket))
    info = messages.new("FlightInfo", endpoint=[endpoint])
    (answer,) = client.action(
        "CancelFlightInfo", messages.new("CancelFlightInfoRequest", info=info).SerializeToString()
    )
    assert messages.read("CancelFlightInfoResult", answer).status == 1
    thread.join(60)
    assert "CANCELED" in told[0]
    body = messages.packed("ActionCancelQueryRequest", info=info.SerializeToString())
    (answer,) = client.action("CancelQuery", body)
    assert messages.unpacked_as("ActionCancelQueryResult", answer).result == 1


def test_a_statement_has_the_time_that_the_call_has(client: RawFlight) -> None:
    short = pa.flight.FlightCallOptions(timeout=1)
    command = messages.packed("CommandStatementQuery", query=ENDLESS)
    descriptor = pa.flight.FlightDescriptor.for_command(command)
    with pytest.raises(pa.flight.FlightTimedOutError):
        client.client.get_flight_info(descriptor, short)


# --- Wrong inputs --------------------------------------------------------------------------------


@pytest.mark.parametrize("garbage", [b"", b"\xff\xff\xff", b"SELECT 1", b"\x0a\x05hello"])
def test_garbage_is_refused_by_name(client: RawFlight, garbage: bytes) -> None:
    assert "INVALID_REQUEST" in said(lambda: client.info_of(garbage))
    assert "INVALID_REQUEST" in said(lambda: client.rows_of(garbage))
    assert "INVALID_REQUEST" in said(lambda: client.put(garbage))
    assert "INVALID_REQUEST" in said(lambda: client.action("CreatePreparedStatement", garbage))


def test_what_is_not_there_is_refused_by_name(client: RawFlight) -> None:
    forged = messages.packed("TicketStatementQuery", statement_handle=b"\xff" * 24)
    assert "STATEMENT_NOT_FOUND" in said(lambda: client.rows_of(forged))
    handle = b"\xff\x00forged"
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    assert "PREPARED_STATEMENT_NOT_FOUND" in said(lambda: client.info_of(command))
    assert "NOT_SUPPORTED" in said(lambda: client.action("BeginTransaction"))
    assert "NOT_SUPPORTED" in said(lambda: client.action("x" * 5000))
    assert "NOT_SUPPORTED" in said(lambda: list(client.client.list_flights(options=client.options)))
    path = pa.flight.FlightDescriptor.for_path("a", "b")
    assert "has no command" in said(lambda: client.client.get_flight_info(path, client.options))
    in_transaction = {"query": "SELECT 1", "transaction_id": b"1"}
    assert "transactions are not supported" in said(
        lambda: client.info("CommandStatementQuery", **in_transaction)
    )
    ticket = messages.packed("TicketStatementQuery", statement_handle=b"x")
    assert "is not supported here" in said(lambda: client.info_of(ticket))
    unknown = messages.packed("CommandStatementQuery", query="SELECT 1")
    unknown = unknown.replace(b"CommandStatementQuery", b"CommandStatementQuark")
    assert "CommandStatementQuark is not supported" in said(lambda: client.info_of(unknown))


def test_too_many_parameters_are_refused(client: RawFlight) -> None:
    handle = client.prepare("SELECT CAST(? AS varchar)").prepared_statement_handle
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    values = pa.table({"0": ["x" * 600_000, "y" * 600_000]})
    assert said(lambda: client.put(command, values))


def test_errors_say_the_place_and_what_to_do(client: RawFlight) -> None:
    with pytest.raises(pa.ArrowInvalid) as caught:
        client.query("SELECT nothing FROM system.jdbc.catalogs")
    text = str(caught.value)
    assert "COLUMN_NOT_FOUND: column nothing does not exist (line 1:8)" in text
    assert "hint: " in text
    assert "Traceback" not in text


# --- Sessions ------------------------------------------------------------------------------------


class Cookies:
    """A client that keeps cookies, as drivers do."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.cookie = ""
        self.channel = grpc.insecure_channel(url.removeprefix("grpc://"))

    def action(self, name: str, body: bytes = b"") -> list[bytes]:
        call = self.channel.unary_stream(
            "/arrow.flight.protocol.FlightService/DoAction",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.CLASSES["Result"].FromString,
        )(messages.new("Action", type=name, body=body), metadata=self._metadata(), timeout=60)
        self._take(call)
        return [bytes(each.body) for each in call]

    def begin(self, sql: str, timeout: float | None = 60) -> Any:
        cmd = messages.packed("CommandStatementQuery", query=sql)
        return self.channel.unary_unary(
            "/arrow.flight.protocol.FlightService/GetFlightInfo",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=messages.CLASSES["FlightInfo"].FromString,
        ).future(
            messages.new("FlightDescriptor", type=2, cmd=cmd),
            metadata=self._metadata(),
            timeout=timeout,
        )

    def query(self, sql: str) -> list[dict[str, Any]]:
        call = self.begin(sql)
        info = call.result()
        self._take(call)
        raw = RawFlight.at(self.url, cookie=self.cookie)
        return list(raw.rows_of(info.endpoint[0].ticket.ticket).to_pylist())

    def options(self) -> dict[str, str]:
        (answer,) = self.action("GetSessionOptions")
        found = messages.read("GetSessionOptionsResult", answer).session_options
        return {name: value.string_value for name, value in found.items()}

    def set(self, **options: str) -> dict[str, int]:
        asked = messages.new("SetSessionOptionsRequest")
        for name, value in options.items():
            asked.session_options[name].string_value = value
        (answer,) = self.action("SetSessionOptions", asked.SerializeToString())
        found = messages.read("SetSessionOptionsResult", answer).errors
        return {name: error.value for name, error in found.items()}

    def _metadata(self) -> list[tuple[str, str]]:
        return [("cookie", self.cookie)] if self.cookie else []

    def _take(self, call: Any) -> None:
        for name, value in call.initial_metadata():
            if name == "set-cookie":
                self.cookie = value


def test_a_session_lasts_for_a_client_that_keeps_its_cookie(offline_gateway: Gateway) -> None:
    client = Cookies(offline_gateway.flight_url)
    assert client.options() == {"catalog": "lake", "schema": "default"}
    client.query("USE system.jdbc")
    client.query("SET SESSION row_limit = 1")
    assert client.options() == {"catalog": "system", "schema": "jdbc", "row_limit": "1"}
    assert len(client.query("SELECT * FROM catalogs")) == 1
    wrong = client.set(catalog="nowhere", engine="steam", colour="red", schema="runtime")
    assert wrong == {"catalog": 2, "engine": 2, "colour": 1}
    assert client.options()["schema"] == "runtime"
    other = Cookies(offline_gateway.flight_url)
    assert other.options() == {"catalog": "lake", "schema": "default"}


def test_a_session_that_is_lost_is_not_another_one(offline_gateway: Gateway) -> None:
    client = Cookies(offline_gateway.flight_url)
    client.query("USE system.jdbc")
    kept = client.cookie
    assert messages.read("CloseSessionResult", client.action("CloseSession")[0]).status == 1
    client.cookie = kept
    with pytest.raises(grpc.RpcError) as caught:
        client.query("SELECT * FROM catalogs")
    assert "the session, with everything set in it, is no longer known" in caught.value.details()
    assert ("seamline-code", "INVALID_REQUEST") in {
        tuple(t) for t in caught.value.trailing_metadata()
    }
    client.cookie = "seamline-session=\"forged'; x=y"
    assert client.query("SELECT 1 AS a") == [{"a": 1}]


def test_headers_are_options_of_one_call(offline_gateway: Gateway) -> None:
    url = offline_gateway.flight_url
    found = RawFlight.at(url, seamline_catalog="system", seamline_schema="jdbc")
    assert found.query("SELECT table_cat FROM catalogs").num_rows == 3
    wrong = RawFlight.at(url, seamline_catalogue="system")
    assert "INVALID_SESSION_PROPERTY" in said(lambda: wrong.query("SELECT 1"))


# --- Who asks ------------------------------------------------------------------------------------


_TOKENS = """
auth:
  tokens:
    - {name: ann, sha256: 49915e0d7d4b402e3017d010bc1c0e83cac6c797d6c16e66340fe3268693a6a1}
    - {name: bob, sha256: 81b637d8fcd2c6da6359e6963113a1170de795e4b725b84d1e0b4cfd9ec58ce9}
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that knows the tokens `ann` and `bob`."""
    folder = tmp_path_factory.mktemp("guarded")
    running = Gateway(offline.load_config(folder, _TOKENS))
    try:
        yield running
    finally:
        running.close()


def test_nobody_is_answered_who_does_not_say_who_they_are(guarded: Gateway) -> None:
    for headers in (
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic YW5uOmFubg=="},
        {"authorization": "Bearer seamline-flight.forged"},
    ):
        client = RawFlight.at(guarded.flight_url, **headers)
        calls: list[Callable[[], object]] = [
            lambda c=client: c.query("SELECT 1"),  # type: ignore[misc]
            lambda c=client: c.rows_of(b""),  # type: ignore[misc]
            lambda c=client: c.put(b""),  # type: ignore[misc]
            lambda c=client: c.action("GetSessionOptions"),  # type: ignore[misc]
            lambda c=client: list(c.client.list_actions(c.options)),  # type: ignore[misc]
            lambda c=client: list(c.client.list_flights(options=c.options)),  # type: ignore[misc]
        ]
        for call in calls:
            with pytest.raises(pa.flight.FlightUnauthenticatedError, match="UNAUTHENTICATED"):
                call()


def test_callers_are_identified_before_a_message_is_awaited(guarded: Gateway) -> None:
    is_refused = threading.Event()

    def nothing() -> Iterator[bytes]:
        is_refused.wait(60)
        yield from ()

    with grpc.insecure_channel(guarded.flight_url.removeprefix("grpc://")) as channel:
        for method in ("GetFlightInfo", "DoGet", "DoPut", "DoAction"):
            call = channel.stream_stream(f"/arrow.flight.protocol.FlightService/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                list(call(nothing(), timeout=30))
            assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
        is_refused.set()


def test_headers_have_a_size_limit(guarded: Gateway) -> None:
    for size, code in ((60_000, "UNAUTHENTICATED"), (70_000, "RESOURCE_EXHAUSTED")):
        with grpc.insecure_channel(guarded.flight_url.removeprefix("grpc://")) as channel:
            call = channel.unary_unary("/arrow.flight.protocol.FlightService/GetFlightInfo")
            with pytest.raises(grpc.RpcError) as caught:
                call(b"", metadata=(("authorization", "x" * size),), timeout=60)
            assert caught.value.code().name == code


def test_nobody_gets_what_is_another_s(guarded: Gateway) -> None:
    ann = RawFlight.at(guarded.flight_url, authorization="Bearer ann")
    bob = RawFlight.at(guarded.flight_url, authorization="Bearer bob")
    info = ann.info("CommandStatementQuery", query="SELECT current_user AS u")
    assert "STATEMENT_NOT_FOUND" in said(lambda: bob.rows(info))
    handle = ann.prepare("SELECT 1").prepared_statement_handle
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    assert "PREPARED_STATEMENT_NOT_FOUND" in said(lambda: bob.info_of(command))
    assert "PREPARED_STATEMENT_NOT_FOUND" in said(lambda: bob.put(command, pa.table({"0": [1]})))
    body = messages.packed("ActionClosePreparedStatementRequest", prepared_statement_handle=handle)
    bob.action("ClosePreparedStatement", body)
    assert ann.rows(ann.info_of(command)).num_rows == 1
    assert ann.rows(info).to_pylist() == [{"u": "ann"}]


def test_certificates_alone_let_nobody_in(tmp_path: pathlib.Path) -> None:
    """Flight SQL takes none, so it is said that nobody could use it."""
    file = offline.write(
        tmp_path,
        "http: {tls: {certificate: a, key: b, client_ca: c}}\nflight: {port: 0}\n",
    )
    with pytest.raises(SeamlineError, match=re.escape("flight.port")):
        load(file, environment={})


# --- What the server is made of ------------------------------------------------------------------


def test_every_error_has_a_status() -> None:
    assert all(status_of(code) is not grpc.StatusCode.OK for code in ERRORS.values())
    assert [status_of(code).name for code in (SYNTAX_ERROR, TABLE_NOT_FOUND, UNAUTHENTICATED)] == [
        "INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHENTICATED"
    ]  # fmt: skip
    assert [status_of(code).name for code in (PERMISSION_DENIED, CANCELED, NOT_SUPPORTED)] == [
        "PERMISSION_DENIED", "CANCELLED", "UNIMPLEMENTED"
    ]  # fmt: skip
    assert status_of(INTERNAL_ERROR).name == "INTERNAL"


def test_a_large_chunk_is_sent_in_messages_that_clients_take() -> None:
    rows = pa.table({"text": ["x" * 1_000_000] * 40 + ["y"] * 5, "n": range(45)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    sent = list(flight_data([sink.getvalue().to_pybytes()], rows.schema))
    assert len(sent) > 5
    assert max(map(len, sent)) <= MESSAGE_BYTES + 1000


def test_who_is_silent_in_the_middle_of_a_call_is_cut_off() -> None:
    cut = threading.Event()
    context = types.SimpleNamespace(cancel=cut.set)
    silence = Silence(0.0, 0.0, check_s=0.01)
    try:

        def never() -> Iterator[bytes]:
            assert cut.wait(60)
            yield from ()

        assert list(silence.read(never(), context)) == []
        cut.clear()
        for _ in silence.send(iter([b"rows"]), context):
            assert cut.wait(60)
    finally:
        silence.close()


def test_bytes_that_are_no_message_have_a_named_error(offline_gateway: Gateway) -> None:
    with grpc.insecure_channel(offline_gateway.flight_url.removeprefix("grpc://")) as channel:
        for method in ("GetFlightInfo", "GetSchema", "DoGet", "DoPut", "DoAction"):
            call = channel.unary_stream(f"/arrow.flight.protocol.FlightService/{method}")
            with pytest.raises(grpc.RpcError) as caught:
                list(call(b"\xff\xff\xff", timeout=60))
            assert "INVALID_REQUEST" in caught.value.details()


def test_a_port_that_is_taken_has_a_named_error(offline_gateway: Gateway, tmp_path: Any) -> None:
    port = offline_gateway.flight_url.rpartition(":")[2]
    other = Gateway(offline.config(tmp_path, flight__port=port))
    try:
        with pytest.raises(SeamlineError) as caught:
            other.parts.open_ports()
        assert caught.value.code.name == "PORT_TAKEN"
    finally:
        other.close()

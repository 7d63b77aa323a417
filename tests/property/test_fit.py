"""Goal: what will make bad records, or 1970 of this year, is said when the table is made.

Method: the decoder is the judge. Random columns meet random records: there is a note exactly where
a record is bad, and what a note offers decodes every record. Columns that were inferred fit what
they were inferred from, or a note says where not. Seconds, milliseconds, micro- and nanoseconds are
put into timestamps at every depth, and the expressions offered are run.
"""

from __future__ import annotations

import datetime
import json
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import offline
from support.creating import World
from support.examples import examples
from support.gateway import Gateway

from seamline.connectors.kafka.formats import json_values
from seamline.connectors.kafka.formats.fit import misfits
from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.json_values import JsonValues
from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.sql import types
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type

SCALARS: tuple[Type, ...] = (
    types.BOOLEAN,
    types.INTEGER,
    types.BIGINT,
    types.DOUBLE,
    types.VARCHAR,
    types.DATE,
    types.TIMESTAMP,
    types.TIMESTAMP_TZ,
    types.UUID,
    Decimal(9, 2),
)
TYPES = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.one_of(
        inner.map(Array),
        inner.map(lambda value: Map(types.VARCHAR, value)),
        st.tuples(inner, inner).map(lambda two: Row((Field("a", two[0]), Field("b", two[1])))),
    ),
    max_leaves=4,
)
ATOMS = st.sampled_from(
    [
        *(None, True, 5, 17, -1, 2**31, 2**63, 10**40, 1.5, "17", "1.5", "x", "", "true"),
        *("2024-01-01", "2024-13-45", "２０２４-01-01", "2024-01-01T10:00", "2024-01-01T25:00"),
        *("2024-01-01T10:00:00Z", "2024-01-01T10:00:00+99:00", "0000-01-01"),
        *(1_732_287_600, 1_732_287_600_000, 1_732_287_600_000_000),
    ]
)
JSON = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    ),
    max_leaves=4,
)
RECORDS = st.lists(
    st.dictionaries(st.sampled_from(["c", "d"]), JSON, max_size=2).map(
        lambda record: json.dumps(record).encode()
    )
    | st.sampled_from([b"not json", b"[]", b"null", b'{"c":1,"c":2}', b'{"c":1e400}']),
    min_size=1,
    max_size=4,
)


def bad(columns: tuple[Field, ...], values: list[bytes | None]) -> dict[int, str]:
    return dict(JsonValues(columns).decode(values)[1])


@examples(400, derandomize=True)
@given(TYPES, RECORDS)
def test_there_is_a_note_exactly_where_a_record_is_bad(
    type_: Type, values: list[bytes | None]
) -> None:
    column = Field("c", type_)
    notes = misfits([column], values, "fail")
    found = bad((column,), values)
    assert bool([n for n in notes if "is read as 19" not in n]) == bool(found)
    for note in notes:
        offered = re.search(r" Declare (\S+) (.+?)(, and read it with (.+))?\.$", note)
        if offered is None or offered[1] != "c":
            continue
        (fitting,) = parse_fields(f"c {offered[2]}") if type_ in SCALARS else (None,)
        if fitting is not None:
            broken = bad((), values)
            assert set(bad((fitting,), values)) == set(broken), note


@examples(400, derandomize=True)
@given(RECORDS)
def test_what_was_inferred_fits_or_it_is_said(values: list[bytes | None]) -> None:
    try:
        inferred = infer_json(values)
    except SeamlineError as error:
        assert error.code.name == "INFERENCE_FAILED"
        return
    notes = misfits(inferred.columns, values, "fail")
    assert bool(notes) == bool(bad(inferred.columns, values))
    unavoidable = r"^not JSON|appears twice|out of range|where an object is expected"
    assert all(re.search(unavoidable, note) for note in notes), notes


# --- Times ---------------------------------------------------------------------------------------

MOMENT = datetime.datetime(2024, 11, 22, 15, 0, tzinfo=datetime.UTC)
UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DEPTHS: dict[str, Callable[[int], Any]] = {
    "at {}": lambda n: {"at": n},
    "r row(at {})": lambda n: {"r": {"at": n}},
    "r row(x bigint, s row(at {}))": lambda n: {"r": {"x": 1, "s": {"at": n}}},
    "a array({})": lambda n: {"a": [n, n]},
    "m map(varchar, {})": lambda n: {"m": {"k": n}},
    "a array(row(at {}))": lambda n: {"a": [{"at": n}]},
}


@pytest.mark.parametrize("type_", ["timestamp(6)", "timestamp(6) with time zone"])
@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("depth", DEPTHS)
def test_epochs_that_are_no_milliseconds_are_said(depth: str, unit: str, type_: str) -> None:
    columns = parse_fields(depth.format(type_))
    number = int(MOMENT.timestamp()) * UNITS[unit]
    values: list[bytes | None] = [json.dumps(DEPTHS[depth](number)).encode(), b"{}", None]
    notes = misfits(columns, values, "fail")
    if unit == "ms":
        assert notes == []
        return
    (note,) = notes
    assert f"{number}" in note
    assert "bigint" in note
    assert ("is read as 1970-01-21" in note) == (unit == "s")
    assert ("from_unixtime(" in note) == (depth.startswith(("at", "r ")))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_the_expression_offered_gives_the_moment(offline_gateway: Gateway, unit: str) -> None:
    number = int(MOMENT.timestamp()) * UNITS[unit]
    value = json.dumps({"r": {"at": number}}).encode()
    (note,) = misfits(parse_fields("r row(at timestamp(6) with time zone)"), [value], "fail")
    expression = note.rpartition("read it with ")[2].rstrip(".")
    sql = f"SELECT {expression} FROM (SELECT CAST(ROW({number}) AS row(at bigint)) AS r) AS t"
    assert offline_gateway.rows(sql) == [(MOMENT,)]


@pytest.mark.parametrize(
    ("declared", "value", "note", "literal", "wanted"),
    [
        ("bigint", "17", "the string '17' where bigint is expected", "'17'", 17),
        ("varchar", 5, "the number 5 where varchar is expected", "5", "5"),
        ("double", "1.5", "the string '1.5' where double is expected", "'1.5'", 1.5),
        ("date", "22.11.2024", "'22.11.2024' is not a date", "'22.11.2024'", None),
    ],
)
def test_the_cast_offered_gives_the_value(
    offline_gateway: Gateway, declared: str, value: Any, note: str, literal: str, wanted: Any
) -> None:
    found = misfits(parse_fields(f"n {declared}"), [json.dumps({"n": value}).encode()], "fail")
    assert len(found) == 1
    assert found[0].startswith(
        f"n: {note} (1 of 1 sampled records do not fit): every query over such a"
    )
    expression = found[0].rpartition("read it with ")[2].rstrip(".")
    sql = f"SELECT {expression} FROM (SELECT {literal} AS n) AS t"
    assert offline_gateway.rows(sql) == [(wanted,)]


def test_a_sample_is_parsed_once_for_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[bytes | None] = [json.dumps({f"c{n}": n for n in range(200)}).encode()] * 2
    declared = parse_fields(", ".join(f"c{n} varchar" for n in range(200)))
    parsed: list[bytes] = []
    parse = json_values.parse

    def noted(value: bytes) -> Any:
        parsed.append(value)
        return parse(value)

    monkeypatch.setattr(json_values, "parse", noted)
    assert len(misfits(declared, values, "fail")) == 200
    assert len(parsed) == 1 + 2  # the first one also shows the form of timestamps


def test_what_fits_is_decoded_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    record = {f"c{n}": n for n in range(200)} | {"at": "2024-11-22T15:00:00", "r": {"n": [1]}}
    declared = parse_fields(
        ", ".join(f"c{n} bigint" for n in range(200)) + ", at timestamp(6), r row(n array(double))"
    )
    read: list[Any] = []
    monkeypatch.setattr(json_values.Parsed, "value", lambda *of: read.append(of))
    assert misfits(declared, [json.dumps(record).encode()] * 2, "fail") == []
    assert read == []


def test_another_type_is_given_up_at_its_first_misfit(monkeypatch: pytest.MonkeyPatch) -> None:
    values: list[bytes | None] = [b'{"n":{}}'] * 100
    value = json_values.Parsed.value
    read: list[Type] = []

    def noted(record: json_values.Parsed, column: Field) -> Any:
        read.append(column.type)
        return value(record, column)

    monkeypatch.setattr(json_values.Parsed, "value", noted)
    (note,) = misfits(parse_fields("n integer"), values, "fail")
    assert note.startswith("n: an object where integer is expected (100 of 100 ")
    assert note.endswith("Declare n json.")
    assert len(read) == 100 + 7 + 100


# --- Where it is said ----------------------------------------------------------------------------


def test_create_table_gives_the_notes(tmp_path: pathlib.Path) -> None:
    world = World(offline.config(tmp_path))
    for value in (b'{"n":"17","at":1732287600,"later":null}', b'{"n":"18","at":1732287601}'):
        world.memory.produce("bids", 0, value)
    notes = world.notes("CREATE TABLE t (n bigint, at timestamp(6)) WITH (topic = 'bids')")
    assert [note.partition(" ")[0] for note in notes] == ["n:", "at:"]
    assert notes[0].endswith(
        "(2 of 2 sampled records do not fit): every query over such a record fails. "
        "Declare n varchar, and read it with TRY_CAST(n AS bigint)."
    )
    skipping = "CREATE TABLE u (n bigint) WITH (topic = 'bids', on_error = 'skip')"
    assert "such a record is left out" in world.notes(skipping)[0]
    assert world.notes("CREATE TABLE v (n varchar, at bigint) WITH (topic = 'bids')") == []
    assert world.notes("CREATE TABLE w WITH (topic = 'bids')") == [
        "later: null in every sampled record, and so varchar, which holds neither numbers nor "
        "objects. State the columns if the type should be another."
    ]
    assert (
        world.notes("CREATE TABLE x (value varbinary) WITH (topic = 'bids', format = 'raw')") == []
    )
    with pytest.raises(SeamlineError, match="INFERENCE_FAILED"):
        world.notes("CREATE TABLE y WITH (topic = 'bids', format = 'raw')")

"""Goal: Avro is decoded as fastavro decodes it, whichever code path does, and nothing is guessed.

Method: random schemas of every type and logical type, and random values of them, written by
fastavro, in unions of several types too. The columns are those that the schema has; both code
paths must give what fastavro reads, logical types included. Then bytes of one value are changed,
cut off or added: its neighbours must stay as they are, and both paths must agree on it.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import functools
import io
import itertools
import json
import uuid
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.damaged import damaged
from support.examples import examples

from seamline.connectors.kafka.formats import avro_depth, avro_schema, trees
from seamline.connectors.kafka.formats import avro_values as avro_values_module
from seamline.connectors.kafka.formats.avro_values import avro_values
from seamline.connectors.kafka.formats.schemas import Schema
from seamline.connectors.kafka.formats.spelling import Spelling
from seamline.connectors.kafka.formats.tree_decoder import TreeDecoder
from seamline.gateway.commands.tables import parse_fields
from seamline.sql.types import Field

INTS, LONGS = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
DAYS = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
MOMENTS = st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30))
INSTANTS = MOMENTS.map(lambda at: at.replace(tzinfo=datetime.UTC))


def _in_millis(at: Any) -> Any:
    return at.replace(microsecond=at.microsecond // 1000 * 1000)


def logical(type_: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": type_, "logicalType": name, **more}


LEAVES: list[tuple[Any, st.SearchStrategy[Any]]] = [
    ("boolean", st.booleans()),
    ("int", INTS),
    ("long", LONGS),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", TEXTS),
    ("bytes", st.binary(max_size=5)),
    (logical("int", "date"), DAYS),
    (logical("int", "time-millis"), st.times().map(_in_millis)),
    (logical("long", "time-micros"), st.times()),
    (logical("long", "timestamp-millis"), INSTANTS.map(_in_millis)),
    (logical("long", "timestamp-micros"), INSTANTS),
    (logical("long", "local-timestamp-millis"), MOMENTS.map(_in_millis)),
    (logical("long", "local-timestamp-micros"), MOMENTS),
    (logical("string", "uuid"), st.uuids()),
    (
        logical("bytes", "decimal", precision=9, scale=2),
        st.decimals("-9999999", "9999999", places=2),
    ),
]
names = itertools.count()


def fixed() -> tuple[Any, st.SearchStrategy[Any]]:
    name = f"F{next(names)}"
    return {"type": "fixed", "name": name, "size": 3}, st.binary(min_size=3, max_size=3)


def fixed_decimal() -> tuple[Any, st.SearchStrategy[Any]]:
    found = {"type": "fixed", "name": f"D{next(names)}", "size": 16, "logicalType": "decimal"}
    return {**found, "precision": 38, "scale": 0}, st.integers(-(10**38) + 1, 10**38 - 1).map(
        decimal.Decimal
    )


def enum() -> tuple[Any, st.SearchStrategy[Any]]:
    symbols = ["A", "B", "C"]
    return {"type": "enum", "name": f"E{next(names)}", "symbols": symbols}, st.sampled_from(symbols)


LEAF = st.sampled_from(LEAVES) | st.builds(enum) | st.builds(fixed) | st.builds(fixed_decimal)
Pair = tuple[Any, Any]


def _nullable(pair: Pair, null_first: bool) -> Pair:
    schema, values = pair
    branches = ["null", schema] if null_first else [schema, "null"]
    return branches, st.none() | values


def _record(pairs: Sequence[Pair]) -> Pair:
    fields = [{"name": f"c{place}", "type": schema} for place, (schema, _) in enumerate(pairs)]
    values = {f"c{place}": values for place, (_, values) in enumerate(pairs)}
    return (
        {"type": "record", "name": f"R{next(names)}", "fields": fields},
        st.fixed_dictionaries(values),
    )


@dataclasses.dataclass
class Chosen:
    """A value of a union of several types, and which of them it is of."""

    place: int
    value: Any


def _several(pairs: Sequence[Pair]) -> Pair:
    """A union of those types that may be together in one: a named type, or one of each kind."""
    distinct = {
        pair[0]["name"] if isinstance(pair[0], dict) and "name" in pair[0] else _kind(pair[0]): pair
        for pair in pairs
    }
    chosen = [
        values.map(functools.partial(Chosen, place))
        for place, (_, values) in enumerate(distinct.values())
    ]
    return [schema for schema, _ in distinct.values()], st.one_of(chosen)


def _kind(schema: Any) -> str:
    return str(schema["type"] if isinstance(schema, dict) else schema)


def _deeper(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return st.one_of(
        inner.map(lambda p: ({"type": "array", "items": p[0]}, st.lists(p[1], max_size=3))),
        inner.map(
            lambda p: ({"type": "map", "values": p[0]}, st.dictionaries(TEXTS, p[1], max_size=3))
        ),
        st.lists(inner, min_size=1, max_size=3).map(_record),
        inner.filter(lambda p: not isinstance(p[0], list)).flatmap(
            lambda p: st.booleans().map(lambda first: _nullable(p, first))
        ),
        st.lists(inner.filter(lambda p: not isinstance(p[0], list)), min_size=2, max_size=4)
        .map(_several)
        .filter(lambda p: len(p[0]) > 1)
        .flatmap(lambda p: st.booleans().map(lambda null: _with_null(p) if null else p)),
    )


def _with_null(pair: Pair) -> Pair:
    return ["null", *pair[0]], st.none() | pair[1]


RECORDS = st.lists(st.recursive(LEAF, _deeper, max_leaves=5), min_size=1, max_size=4).map(_record)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema, values = draw(RECORDS)
    return schema, draw(st.lists(values, min_size=1, max_size=4))


def written(schema: Any, value: Any) -> bytes:
    """A value in bytes: fastavro writes all but unions, as it cannot be told the type in each."""
    match schema:
        case _ if not _has_choice(value):
            pass
        case list():
            place, inner = (value.place, value.value) if isinstance(value, Chosen) else (0, value)
            branch = _others(schema)[place]
            return _long(schema.index(branch)) + written(branch, inner)
        case {"type": "record", "fields": fields}:
            return b"".join(written(field["type"], value[field["name"]]) for field in fields)
        case {"type": "array", "items": items}:
            inner = b"".join(written(items, item) for item in value)
            return _long(len(value)) + inner + _long(0)
        case {"type": "map", "values": values}:
            entries = (written("string", name) + written(values, v) for name, v in value.items())
            return _long(len(value)) + b"".join(entries) + _long(0)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def _has_choice(value: Any) -> bool:
    match value:
        case dict():
            return any(map(_has_choice, value.values()))
        case list():
            return any(map(_has_choice, value))
    return isinstance(value, Chosen)


def _long(number: int) -> bytes:
    return written("long", number)


def _others(branches: list[Any]) -> list[Any]:
    return [branch for branch in branches if branch != "null"]


def columns_of(schema: Any) -> tuple[Field, ...]:
    return trees.columns_of(avro_schema.parsed(Schema("AVRO", json.dumps(schema))))


def decoder(schema: Any, columns: tuple[Field, ...]) -> TreeDecoder:
    found = avro_values(Schema("AVRO", json.dumps(schema)), columns, whole=False)
    assert isinstance(found, TreeDecoder)
    return found


def exact_only(found: TreeDecoder) -> TreeDecoder:
    found._to_arrow = None
    return found


def plain(value: Any) -> Any:
    """A value as Arrow gives it back."""
    match value:
        case dict():
            return {name: plain(inner) for name, inner in value.items()}
        case list():
            return [plain(inner) for inner in value]
        case tuple():
            return tuple(plain(inner) for inner in value)
        case uuid.UUID():
            return str(value)
        case float():
            return repr(value)
    return value


def as_read(schema: Any, value: Any, sent: Any) -> Any:
    """What fastavro reads, in the form that Arrow gives back: maps as pairs, unions as rows."""
    match schema:
        case list() if isinstance(sent, Chosen):
            branches = _others(schema)
            read = as_read(branches[sent.place], value, sent.value)
            names = [
                b["name"] if isinstance(b, dict) and "name" in b else _kind(b) for b in branches
            ]
            return {name: read if place == sent.place else None for place, name in enumerate(names)}
        case list():
            return None if value is None else as_read(_others(schema)[0], value, sent)
        case {"type": "record", "fields": fields}:
            types = {field["name"]: field["type"] for field in fields}
            return {name: as_read(type_, value[name], sent[name]) for name, type_ in types.items()}
        case {"type": "array", "items": items}:
            return [as_read(items, *pair) for pair in zip(value, sent, strict=True)]
        case {"type": "map", "values": values}:
            return [(name, as_read(values, item, sent[name])) for name, item in value.items()]
    return plain(value)


def rows(arrays: Sequence[pa.Array], columns: Sequence[Field]) -> list[dict[str, Any]]:
    for array in arrays:
        array.validate(full=True)
    lists = [[plain(value) for value in array.to_pylist()] for array in arrays]
    return [
        dict(zip([c.name for c in columns], row, strict=True)) for row in zip(*lists, strict=True)
    ]


@examples(150)
@given(cases())
def test_both_paths_read_what_fastavro_reads(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    columns = columns_of(schema)
    raw = [written(schema, value) for value in values]
    reference = fastavro.parse_schema(schema)
    expected = [
        as_read(schema, fastavro.schemaless_reader(io.BytesIO(v), reference, None), value)
        for v, value in zip(raw, values, strict=True)
    ]
    for made in (decoder(schema, columns), exact_only(decoder(schema, columns))):
        arrays, bad = made.decode(raw)
        assert not bad
        assert rows(arrays, columns) == expected


@examples(150)
@given(cases(), st.data())
def test_a_bad_value_is_bad_for_both_paths_and_leaves_its_neighbours(
    case: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    schema, values = case
    columns = columns_of(schema)
    raw = [written(schema, value) for value in values]
    place = data.draw(st.integers(0, len(raw) - 1))
    mutated = [*raw[:place], damaged(raw[place], data), *raw[place + 1 :]]
    good = rows(decoder(schema, columns).decode(raw)[0], columns)
    fast_arrays, fast_bad = decoder(schema, columns).decode(mutated)
    exact_arrays, exact_bad = exact_only(decoder(schema, columns)).decode(mutated)
    assert fast_bad == exact_bad
    assert set(fast_bad) <= {place}
    found = rows(fast_arrays, columns)
    assert found == rows(exact_arrays, columns)
    assert found[:place] + found[place + 1 :] == good[:place] + good[place + 1 :]


ENUM = {"type": "enum", "name": "E", "symbols": ["A"]}
RECORD = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "s", "type": "string"},
        {"name": "u", "type": ["null", "string", "long", ENUM]},
        {"name": "d", "type": logical("bytes", "decimal", precision=9, scale=2)},
        {"name": "t", "type": logical("long", "timestamp-millis")},
    ],
}
VALUE = {
    "i": 5,
    "s": "x",
    "u": 7,
    "d": decimal.Decimal("1.50"),
    "t": datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC),
}


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("i bigint", 5),
        ("i double", 5.0),
        ("i decimal(5, 1)", decimal.Decimal("5.0")),
        ("s varbinary", b"x"),
        ("u bigint", 7),
        ("d decimal(20, 4)", decimal.Decimal("1.5000")),
        ("d varbinary", b"\x00\x96"),
        ("t bigint", 1_704_067_200_000),
        ("t timestamp(6)", datetime.datetime(2024, 1, 1)),
        ("missing varchar", None),
    ],
)
def test_columns_may_be_wider_than_the_schema(declared: str, expected: Any) -> None:
    columns = parse_fields(declared)
    for made in (decoder(RECORD, columns), exact_only(decoder(RECORD, columns))):
        arrays, bad = made.decode([written(RECORD, VALUE), None])
        assert not bad
        assert arrays[0].to_pylist() == [expected, None]


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ("i varchar", "i: the number 5 where varchar is expected"),
        ("s bigint", "s: the string 'x' where bigint is expected"),
        ("u varchar", "u: the number 7 where varchar is expected"),
        ("d decimal(20, 1)", "d: 1.50 has more than 1 digits"),
        ("d varchar", "d: bytes (decimal) where varchar is expected"),
        ("s row(a bigint)", "s: string where row(a bigint) is expected"),
        ("missing varchar not null", "missing: null, but the column is required"),
    ],
)
def test_a_column_of_another_type_is_no_guess(declared: str, reason: str) -> None:
    columns = parse_fields(declared)
    value = {**VALUE, "d": decimal.Decimal("1.55")} if declared == "d decimal(20, 1)" else VALUE
    for made in (decoder(RECORD, columns), exact_only(decoder(RECORD, columns))):
        arrays, bad = made.decode([written(RECORD, value)])
        assert bad[0].startswith(reason.replace("1.50", "1.55"))
        assert arrays[0].to_pylist() == [None]


@pytest.mark.parametrize(
    ("value", "declared", "expected"),
    [
        ("x", "varchar", "x"),
        (("shop.A", {"i": 1}), "row(i integer)", {"i": 1}),
        (("shop.B", {"s": "y"}), "row(s varchar)", {"s": "y"}),
        (("shop.F", b"ab"), "varbinary", b"ab"),
        (("shop.E", "UP"), "varchar", "UP"),
        ([1, 2], "array(integer)", [1, 2]),
        ({"k": 1.5}, "map(varchar, double)", [("k", 1.5)]),
        (True, "boolean", True),
        (None, "varchar", None),
    ],
)
def test_unions_of_many_types(value: Any, declared: str, expected: Any) -> None:
    def named(kind: str, name: str, **more: Any) -> dict[str, Any]:
        return {"type": kind, "name": name, "namespace": "shop", **more}

    branches = [
        "null",
        "string",
        "boolean",
        named("record", "A", fields=[{"name": "i", "type": "int"}]),
        named("record", "B", fields=[{"name": "s", "type": "string"}]),
        named("fixed", "F", size=2),
        named("enum", "E", symbols=["UP"]),
        {"type": "array", "items": "int"},
        {"type": "map", "values": "double"},
    ]
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": branches}]}
    arrays, bad = decoder(schema, parse_fields(f"u {declared}")).decode(
        [written(schema, {"u": value})]
    )
    assert not bad
    assert arrays[0].to_pylist() == [expected]
    other = "date" if declared != "date" else "bigint"
    arrays, bad = decoder(schema, parse_fields(f"u {other}")).decode(
        [written(schema, {"u": value})]
    )
    assert arrays[0].to_pylist() == [None]
    assert bool(bad) == (value is not None)


def test_numbers_in_a_union_are_of_the_type_that_was_written() -> None:
    kinds = ["int", logical("long", "timestamp-millis")]
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": kinds}]}
    plain = {"type": "record", "name": "R", "fields": [{"name": "u", "type": ["int", "long"]}]}
    raw = [written(plain, {"u": Chosen(place, 5)}) for place in (0, 1)]
    arrays, bad = decoder(schema, parse_fields("u timestamp(6) with time zone")).decode(raw)
    at = datetime.datetime(1970, 1, 1, 0, 0, 0, 5000, datetime.UTC)
    assert not bad
    assert arrays[0].to_pylist() == [at, at], "the int is of no time, and counts milliseconds"
    columns = parse_fields("u row(int integer, long timestamp(6) with time zone)")
    assert columns_of(schema) == columns
    arrays, bad = decoder(schema, columns).decode(raw)
    assert arrays[0].to_pylist() == [{"int": 5, "long": None}, {"int": None, "long": at}]


@pytest.mark.parametrize(
    ("branches", "declared", "value"),
    [
        (["null", "int", "long"], "bigint", 5),
        (["int", "null", "long", "string"], "decimal(20, 0)", -(2**63)),
        (["int", logical("long", "")], "timestamp(6)", datetime.datetime(1970, 1, 1)),
        (["float", "double"], "double", 1.5),
        ([logical("int", "date"), logical("long", "date")], "date", datetime.date(1970, 1, 6)),
    ],
)
def test_numbers_of_one_class_that_mean_the_same_are_clear(
    branches: list[Any], declared: str, value: Any
) -> None:
    raw_value = {datetime.datetime: 0, datetime.date: 5}.get(type(value), value)
    kinds = [kind["type"] if isinstance(kind, dict) else kind for kind in branches]
    bare = {"type": "record", "name": "R", "fields": [{"name": "u", "type": kinds}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "u", "type": branches}]}
    arrays, bad = decoder(schema, parse_fields(f"u {declared}")).decode(
        [written(bare, {"u": raw_value})] * 2
    )
    assert not bad
    assert arrays[0].to_pylist() == [value] * 2


def test_a_record_may_lead_to_itself() -> None:
    schema = {
        "type": "record",
        "name": "Node",
        "fields": [{"name": "v", "type": "int"}, {"name": "next", "type": ["null", "Node"]}],
    }
    columns = parse_fields("v integer, next row(v integer, next row(v integer))")
    arrays, bad = decoder(schema, columns).decode(
        [written(schema, {"v": 1, "next": {"v": 2, "next": None}})]
    )
    assert not bad
    assert arrays[1].to_pylist() == [{"v": 2, "next": None}]
    assert [c.name for c in columns_of(schema)] == ["v"], "no column is endless"


def test_names_are_looked_up_where_they_stand() -> None:
    inner = Schema("AVRO", json.dumps({"type": "fixed", "name": "org.x.Id", "size": 2}))
    outer = {
        "type": "record",
        "name": "R",
        "namespace": "org.x",
        "fields": [{"name": "a", "type": "Id"}, {"name": "b", "type": "org.x.Id"}],
    }
    schema = Schema("AVRO", json.dumps(outer), (("org.x.Id", inner),))
    arrays, bad = avro_values(schema, parse_fields("a varbinary, b varbinary"), whole=False).decode(
        [b"abcd"]
    )
    assert not bad
    assert [array.to_pylist() for array in arrays] == [[b"ab"], [b"cd"]]


CHAIN = {
    "type": "record",
    "name": "L",
    "fields": [{"name": "v", "type": "int"}, {"name": "n", "type": ["null", "L"]}],
}
FOREST = {
    "type": "record",
    "name": "T",
    "fields": [
        {"name": "v", "type": "int"},
        {"name": "n", "type": {"type": "map", "values": {"type": "array", "items": "T"}}},
    ],
}


@pytest.mark.parametrize(
    ("schema", "open_", "end", "most"),
    [(CHAIN, b"\2\2", b"\2\0", 199), (FOREST, b"\2\2\2k\2", b"\2\0", 66)],
)
def test_what_is_nested_without_end_is_bad(
    schema: Any, open_: bytes, end: bytes, most: int
) -> None:
    made = decoder(schema, parse_fields("v integer"))

    def nested(count: int) -> bytes:
        close = b"\0\0" * count if schema is FOREST else b""
        return open_ * count + end + close

    few, enough, many, endless = (nested(count) for count in (3, most, most + 1, 50_000))
    arrays, bad = made.decode([few, endless, enough, many, open_ * 50_000])
    deep = "nested deeper than 200 levels"
    assert bad == dict.fromkeys((1, 3, 4), deep)
    assert arrays[0].to_pylist() == [1, None, 1, None, None]


def test_items_without_bytes_end() -> None:
    nulls = {"name": "a", "type": {"type": "array", "items": "null"}}
    schema = {**CHAIN, "fields": [*CHAIN["fields"], nulls]}
    few = written(schema, {"v": 1, "n": None, "a": [None] * 1000})
    block = b"\x80\x80\x40"  # of half a million
    arrays, bad = decoder(schema, parse_fields("v integer, a array(integer)")).decode(
        [few, b"\2\0" + block * 50_000 + b"\0", b"\2\0" + b"\xff" * 9 + b"\1\0\0"]
    )
    assert [reason[:9] for reason in bad.values()] == ["not Avro:"] * 2
    assert [len(items or ()) for items in arrays[1].to_pylist()] == [1000, 0, 0]


TREE = {
    "type": "record",
    "name": "x.N",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "f", "type": {"type": "fixed", "name": "F", "size": 2}},
        {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
        {"name": "d", "type": "double"},
        {"name": "m", "type": {"type": "map", "values": ["null", "boolean", "N", "bytes"]}},
        {"name": "a", "type": {"type": "array", "items": ["string", "x.N", "float"]}},
    ],
}
TREES = st.recursive(
    st.none(),
    lambda inner: st.fixed_dictionaries(
        {
            "i": INTS,
            "f": st.binary(min_size=2, max_size=2),
            "e": st.sampled_from("AB"),
            "d": st.floats(allow_nan=False),
            "m": st.dictionaries(TEXTS, st.booleans() | st.binary(max_size=3) | inner, max_size=3),
            "a": st.lists(TEXTS | inner.filter(bool), max_size=3),
        }
    ),
    max_leaves=6,
).filter(bool)


@examples(100)
@given(TREES, st.data())
def test_the_depth_of_a_value_is_all_that_is_checked_before_it_is_read(
    value: Any, data: st.DataObject
) -> None:
    raw = written(TREE, value)
    avro_depth.check_depth(raw, avro_schema.parsed(Schema("AVRO", json.dumps(TREE))))
    columns = parse_fields("i integer, d double")
    good = decoder(TREE, columns).decode([raw, raw])
    assert not good[1]
    arrays, bad = decoder(TREE, columns).decode([raw, damaged(raw, data)])
    assert set(bad) <= {1}
    assert [array[0] for array in arrays] == [array[0] for array in good[0]]


def test_an_epoch_holds_for_all_integers_that_are_not_of_time() -> None:
    kinds = {
        "plain": "long",
        "other": logical("long", "com.example.moment"),
        "small": logical("int", "com.example.moment"),
        "millis": logical("long", "timestamp-millis"),
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "R", "fields": fields}
    value = dict.fromkeys(kinds, 1_700_000_000)
    noon = datetime.datetime(2023, 11, 14, 22, 13, 20)
    columns = parse_fields(", ".join(f"{name} timestamp(6)" for name in kinds))
    text = Schema("AVRO", json.dumps(schema))
    arrays, bad = avro_values(
        text, columns, whole=False, spelling=Spelling(epoch="seconds")
    ).decode([written(schema, value)])
    assert not bad
    assert [a[0].as_py() for a in arrays] == [
        *[noon] * 3,
        datetime.datetime(1970, 1, 20, 16, 13, 20),
    ]


def test_the_keys_of_a_map_are_there_and_differ() -> None:
    schema = {"type": "map", "values": "int"}
    values = [{"1": 1, "2": 2}, {"1": 1, "1.0": 2}, {"null": 1}, {}]
    (column,) = parse_fields("m map(double, integer)")
    text = Schema("AVRO", json.dumps(schema))
    (array,), bad = avro_values(text, (column,), whole=True).decode(
        [written(schema, value) for value in values]
    )
    assert bad == {1: "m: the key 1.0 appears twice", 2: "m key: null"}
    assert array.to_pylist() == [[(1.0, 1), (2.0, 2)], None, None, []]


@pytest.mark.parametrize("scale", [2**31 - 1, -(2**31), 10_000])
def test_a_scale_that_no_decimal_has_is_bad(scale: int) -> None:
    fields = [{"name": "scale", "type": "int"}, {"name": "value", "type": "bytes"}]
    decimal_ = {"type": "record", "name": trees.VARIABLE_DECIMAL, "fields": fields}
    schema = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_}]}
    raw = [written(schema, {"d": {"scale": s, "value": b"\5"}}) for s in (2, scale)]
    arrays, bad = decoder(schema, parse_fields("d decimal(9, 2)")).decode(raw)
    assert list(bad) == [1]
    assert arrays[0].to_pylist() == [decimal.Decimal("0.05"), None]


def refers(root: Any, *others: Any) -> Schema:
    return Schema(
        "AVRO",
        json.dumps(root),
        tuple((other["name"], Schema("AVRO", json.dumps(other))) for other in others),
    )


PAIR = {"type": "record", "name": "x.D", "fields": [{"name": "i", "type": "int"}]}
OTHER = {
    "type": "record",
    "name": "x.E",
    "fields": [{"name": "s", "type": "string"}, {"name": "d", "type": ["null", "D"]}],
}


@pytest.mark.parametrize(
    ("root", "raw", "declared", "expected"),
    [
        (["x.D", "x.E"], b"\0\x0a", "v row(i integer)", {"i": 5}),
        (["x.E", "x.D"], b"\0\x02y\2\4", "v row(s varchar, d row(i bigint))", None),
        (["null", "x.D"], b"\2\x0a", "v row(i integer)", {"i": 5}),
        ("x.D", b"\x0a", "v row(i integer)", {"i": 5}),
        ({"type": "array", "items": "x.D"}, b"\2\x0a\0", "v array(row(i integer))", [{"i": 5}]),
        ({"type": "map", "values": "x.D"}, b"\0", "v map(varchar, row(i integer))", []),
    ],
)
def test_types_of_other_schemas_stand_anywhere(
    root: Any, raw: bytes, declared: str, expected: Any
) -> None:
    expected = expected if expected is not None else {"s": "y", "d": {"i": 2}}
    columns = parse_fields(declared)
    made = avro_values(refers(root, PAIR, OTHER), columns, whole=True)
    arrays, bad = made.decode([raw, raw + b"\0", raw])
    assert list(bad) == [1]
    assert arrays[0].to_pylist() == [expected, None, expected]


def test_a_type_that_two_schemas_refer_to_is_one() -> None:
    both = refers({**OTHER, "name": "x.B"}, PAIR)
    root = {
        "type": "record",
        "name": "x.R",
        "fields": [{"name": "b", "type": "B"}, {"name": "d", "type": "D"}],
    }
    schema = Schema("AVRO", json.dumps(root), (("x.B", both), *refers(root, PAIR).references))
    node, write = avro_values_module.avro_writer(schema)
    raw = write({"b": {"s": "y", "d": ("x.D", {"i": 1})}, "d": {"i": 2}})
    columns = trees.columns_of(node)
    arrays, bad = avro_values(schema, columns, whole=False).decode([raw, raw[:-1]])
    assert list(bad) == [1]
    assert [array[0].as_py() for array in arrays] == [{"s": "y", "d": {"i": 1}}, {"i": 2}]
    with pytest.raises(ValueError, match=r"there are two types x\.D"):
        avro_values(refers({**OTHER, "name": "x.D"}, PAIR), columns, whole=False)


@pytest.mark.parametrize("text", ["{", '"nothing"', '{"type": "record"}', "[]x", '{"type": 5}'])
def test_what_is_no_schema_is_said_to_be_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"Avro|JSON|Expecting|Extra"):
        avro_values(Schema("AVRO", text), parse_fields("a varchar"), whole=False)


def _named(name: str, **fields: Any) -> dict[str, Any]:
    own = [{"name": field, "type": type_} for field, type_ in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": own}


ORDER = _named("Order", id="int", tags="string")
PAYMENT = _named("Payment", id="long", tags={"type": "array", "items": "string"}, paid="double")


def test_records_of_several_types_are_one_row_with_their_type() -> None:
    schema = [ORDER, PAYMENT]
    raw = [
        written(schema, Chosen(0, {"id": 1, "tags": "x"})),
        written(schema, Chosen(1, {"id": 2**40, "tags": ["y"], "paid": 1.5})),
    ]
    columns = columns_of(schema)
    assert columns == parse_fields(
        'id bigint, paid double, "Order" row(tags varchar), "Payment" row(tags array(varchar))'
    )
    columns += parse_fields('"@type" varchar')
    expected = [
        {"id": 1, "paid": None, "Order": {"tags": "x"}, "Payment": None, "@type": "shop.Order"},
        {
            "id": 2**40,
            "paid": "1.5",
            "Order": None,
            "Payment": {"tags": ["y"]},
            "@type": "shop.Payment",
        },
    ]
    arrays, bad = decoder(schema, columns).decode(raw)
    assert (rows(arrays, columns), bad) == (expected, {})
    for place, alone in enumerate(schema):  # several schemas in one topic, each with its own
        for made in (decoder(alone, columns), exact_only(decoder(alone, columns))):
            arrays, bad = made.decode([raw[place][1:]])
            assert (rows(arrays, columns), bad) == ([expected[place]], {})


@pytest.mark.parametrize(
    "declared",
    [
        "u row(member0 varchar, member1 bigint, member2 row(id integer))",
        'u row("0" varchar, "1" bigint, "2" row(id integer))',
        "u row(member_string varchar, member_long bigint, member_order row(id integer))",
        'u row("string" varchar, long bigint, "shop.Order" row(id integer))',
        'u row("string" varchar, long bigint, "Order" row(id integer))',
    ],
)
def test_rows_of_branches_may_have_the_names_of_other_tools(declared: str) -> None:
    schema = _named("R", u=["string", "null", "long", ORDER])
    values = [Chosen(0, "x"), None, Chosen(1, 5), Chosen(2, {"id": 1, "tags": ""})]
    arrays, bad = decoder(schema, parse_fields(declared)).decode(
        [written(schema, {"u": value}) for value in values]
    )
    assert not bad
    found = [None if row is None else [*row.values()] for row in arrays[0].to_pylist()]
    assert found == [["x", None, None], None, [None, 5, None], [None, None, {"id": 1}]]
    before = _named("R", u=["null", "string"])
    arrays, bad = decoder(before, parse_fields('u row("string" varchar, long bigint)')).decode(
        [written(before, {"u": "x"}), written(before, {"u": None})]
    )
    assert (arrays[0].to_pylist(), bad) == ([{"string": "x", "long": None}, None], {})


def as_json(schema: Any, value: Any, sent: Any) -> Any:
    """What fastavro reads, as JSON."""
    match schema, value:
        case list(), _:
            inner = _others(schema)[sent.place if isinstance(sent, Chosen) else 0]
            own = sent.value if isinstance(sent, Chosen) else sent
            return None if value is None else as_json(inner, value, own)
        case {"type": "record", "fields": fields}, _:
            return {
                f["name"]: as_json(f["type"], value[f["name"]], sent[f["name"]]) for f in fields
            }
        case {"type": "array", "items": items}, _:
            return [as_json(items, *pair) for pair in zip(value, sent, strict=True)]
        case {"type": "map", "values": values}, _:
            return {name: as_json(values, item, sent[name]) for name, item in value.items()}
        case _, bytes():
            return base64.b64encode(value).decode()
        case _, datetime.datetime():
            end = "Z" if value.tzinfo else ""
            return value.replace(tzinfo=None).isoformat() + end
        case _, datetime.date() | datetime.time():
            return value.isoformat()
        case _, float():
            text = str(np.float32(value)) if _kind(schema) == "float" else repr(value)
            return {"inf": "Infinity", "-inf": "-Infinity"}.get(text) or float(text)
        case _, decimal.Decimal():
            return decimal.Decimal(value)
        case _, uuid.UUID():
            return str(value)
    return value


@examples(150)
@given(cases())
def test_json_text_is_what_fastavro_reads(case: tuple[Any, list[Any]]) -> None:
    schema, values = case
    raw = [written(schema, value) for value in values]
    reference = fastavro.parse_schema(schema)
    columns = parse_fields(", ".join(f"{f['name']} varchar" for f in schema["fields"]))
    text = Schema("AVRO", json.dumps(schema))
    made = avro_values(text, columns, whole=False, spelling=Spelling(json_text=True))
    arrays, bad = made.decode(raw)
    assert not bad
    for place, field in enumerate(schema["fields"]):
        for value, body, sent in zip(arrays[place].to_pylist(), raw, values, strict=True):
            read: Any = fastavro.schemaless_reader(io.BytesIO(body), reference, None)
            name, type_ = field["name"], field["type"]
            expected = as_json(type_, read[name], sent[name])
            is_bytes = isinstance(read[name], bytes) and _kind(type_) == "bytes"
            if isinstance(expected, str) and not is_bytes:
                assert value == expected
            elif value is not None and not is_bytes:
                exact = decimal.Decimal if isinstance(expected, decimal.Decimal) else None
                assert json.loads(value, parse_float=exact, parse_int=exact) == expected


@pytest.mark.parametrize("space", ["", "shop"])
def test_records_in_each_other_through_a_union_have_any_namespace(space: str) -> None:
    branches = ["null", "Node", {"type": "array", "items": "Node"}]
    node = {"type": "record", "name": "Node", "namespace": space, "fields": [
        {"name": "next", "type": branches}]}  # fmt: skip
    stream = io.BytesIO()
    value = {"next": {"next": [{"next": None}]}}
    fastavro.schemaless_writer(stream, fastavro.parse_schema(node), value)
    columns = parse_fields("next json")
    (array,), bad = decoder(node, columns).decode([stream.getvalue()])
    assert not bad
    assert json.loads(array[0].as_py()) == value["next"]

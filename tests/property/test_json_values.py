"""The fast JSON path gives what the exact one gives, or hands over to it.

Method: random schemas, and records that are mostly right and often nearly right (wrong shapes, odd
numbers, odd texts, broken JSON). A batch is decoded by both paths; where the fast path answers at
all, arrays must be equal and the exact path must have found no bad record.
"""

from __future__ import annotations

import base64
import decimal
import json
import uuid
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from support.examples import PART, examples

from seamline.connectors.kafka.formats.infer import infer_json
from seamline.connectors.kafka.formats.json_values import WORD, JsonDocuments, JsonValues
from seamline.connectors.kafka.formats.text_values import TextValues
from seamline.sql import types
from seamline.sql.kernels import json_texts
from seamline.sql.types import Array, Decimal, Field, Map, Row, Type, Varbinary

SCALARS: tuple[Type, ...] = (
    types.BOOLEAN,
    types.INTEGER,
    types.BIGINT,
    types.REAL,
    types.DOUBLE,
    types.VARCHAR,
    types.DATE,
    types.TIMESTAMP,
    types.TIMESTAMP_TZ,
    types.UUID,
    Varbinary(),
    Varbinary(2),
    Decimal(9, 2),
    Decimal(38, 10),
    Decimal(3, 3),
    WORD,
    types.TIME,
)


def nested(inner: st.SearchStrategy[Type]) -> st.SearchStrategy[Type]:
    """Arrays and rows of what `inner` gives."""
    return inner.map(Array) | st.lists(inner, min_size=1, max_size=3).map(
        lambda members: Row(tuple(Field(f"f{i}", t) for i, t in enumerate(members)))
    )


FAST_TYPES = st.recursive(
    st.sampled_from([t for t in SCALARS if t != types.TIME]), nested, max_leaves=4
)
TYPES = FAST_TYPES | st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: nested(inner) | inner.map(lambda value: Map(types.VARCHAR, value)),
    max_leaves=4,
)

ODD = st.sampled_from(
    [
        "1",
        "-0",
        "0",
        "-0.0",
        "1.0",
        "1.5",
        "1e3",
        "1E-2",
        "2147483648",
        "9223372036854775808",
        "-9223372036854775808",
        "1e400",
        "-1e39",
        "3.4028236e38",
        "1e-400",
        "0.30000000000000004",
        "0.1",
        "1.500",
        "123456789012345678901234567890.5",
        "999",
        "1000",
        "0.999",
        "1.0001",
        "NaN",
        "Infinity",
        "-Infinity",
        "Inf",
        "-NaN",
        "true",
        "false",
        "null",
        "tru",
        "01",
        "+1",
        '""',
        '"1.5"',
        '"1e2"',
        '" 1"',
        '"+1"',
        '"1_0"',
        '".5"',
        '"5."',
        '"NaN"',
        '"Infinity"',
        '"-Infinity"',
        '"abc"',
        '"\\u00e9"',
        '"\\ud800"',
        '"\\ud83d\\ude00"',
        '"\\u0000"',
        '"a\\nb"',
        '"AAA="',
        '"AA=="',
        '"AAAA"',
        '"!"',
        '"2024-02-29"',
        '"2023-02-29"',
        '"0000-01-01"',
        '"9999-12-31"',
        '"2024-02-29T01:02:03"',
        '"2024-02-29 01:02:03.123456"',
        '"2024-02-29T01:02:03.123456789"',
        '"2024-02-29T01:02"',
        '"2024-02-29T01:02:03Z"',
        '"2024-02-29T01:02:03+02:00"',
        '"2024-02-29T01:02:03+0200"',
        '"2024-02-29T24:00:00"',
        '"2024-02-29T01:02:60"',
        '"2024-02-29T01:02:03+25:00"',
        '"0001-01-01T00:00:00+12:00"',
        '"9999-12-31T23:59:59-01:00"',
        "1" * 5000,
        "-" + "1" * 5000,
        '"' + "1" * 30_000 + '"',
        '"9999-12-31T23:59:59.999999"',
        '"01:02:03"',
        '"1:2:3"',
        "1700000000000",
        "-1",
        "253402300799999",
        "253402300800000",
        "99999999999999999",
        "[]",
        "[1]",
        "[null]",
        '["a",1]',
        "{}",
        '{"f0":1}',
        '{"f0":1,"f0":2}',
        '{"f1":null}',
        '{"k":1}',
        '{"x":{"y":[[[]]]}}',
        '"' + str(uuid.UUID(int=5)) + '"',
        '"' + str(uuid.UUID(int=5)).upper() + '"',
    ]
)

GAPS = st.sampled_from(["", " ", "\t", "\n", "\r"])


def right(type_: Type) -> st.SearchStrategy[Any]:
    """JSON values that the column takes."""
    match type_:
        case types.BOOLEAN:
            return st.booleans()
        case types.INTEGER:
            return st.integers(-(2**31), 2**31 - 1)
        case types.BIGINT:
            return st.integers(-(2**63), 2**63 - 1)
        case types.REAL:
            return st.floats(width=32, allow_nan=False, allow_infinity=False)
        case types.DOUBLE:
            return st.floats(allow_nan=False, allow_infinity=False)
        case types.VARCHAR:
            return st.text(max_size=8)
        case _ if type_ == WORD:
            return st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8)
        case types.DATE:
            return st.dates().map(str)
        case types.TIMESTAMP:
            return st.datetimes().map(lambda moment: moment.isoformat())
        case types.TIMESTAMP_TZ:
            return st.datetimes().map(lambda moment: moment.isoformat() + "Z")
        case types.TIME:
            return st.times().map(str)
        case types.UUID:
            return st.uuids().map(str)
        case Varbinary(length):
            size = length if length is not None else 3
            return st.binary(min_size=size, max_size=size).map(
                lambda raw: base64.b64encode(raw).decode()
            )
        case Decimal(precision, scale):
            return st.integers(-(10**precision) + 1, 10**precision - 1).map(
                lambda digits: (
                    f"{digits // 10**scale}.{digits % 10**scale:0{scale}}"
                    if digits >= 0
                    else str(0)
                )
            )
        case Array(element):
            return st.lists(st.none() | right(element), max_size=3)
        case Map(_, value):
            return st.dictionaries(st.text(max_size=3), st.none() | right(value), max_size=3)
        case Row(fields):
            return st.fixed_dictionaries({f.name: st.none() | right(f.type) for f in fields})
    raise AssertionError(type_)


@st.composite
def batches(draw: st.DrawFn) -> tuple[tuple[Field, ...], list[bytes | None]]:
    """A schema and a batch of records for it."""
    columns = tuple(
        Field(
            f"c{i}",
            draw(TYPES),
            required=draw(st.integers(0, 19)) == 19,
            aliases=("old", "older")[: max(0, draw(st.integers(0, 20)) - 18)] if i == 0 else (),
        )
        for i in range(draw(st.integers(1, 3)))
    )
    nearly_right = draw(st.booleans())
    gap = GAPS if draw(st.integers(0, 3)) == 3 else st.just("")
    records: list[bytes | None] = []
    for _ in range(draw(st.integers(1, 5))):
        if draw(st.integers(0, 19)) == 19:
            records.append(draw(st.sampled_from([None, b"null", b"", b"[]", b"1", b"{", b"}"])))
            continue
        members = []
        named = [(name, column) for column in columns for name in (column.name, *column.aliases)]
        for name, column in named:
            choice = draw(st.integers(0, 9))
            if choice == 9 and nearly_right:
                text = draw(ODD)
            elif choice == 8:
                continue
            else:
                text = json.dumps(draw(right(column.type)), ensure_ascii=draw(st.booleans()))
            members.append(f'{draw(gap)}"{name}"{draw(gap)}:{draw(gap)}{text}')
        if nearly_right and draw(st.integers(0, 9)) == 9:
            members.append(f'"zz":{draw(ODD)}')
        if nearly_right and members and draw(st.integers(0, 19)) == 19:
            members.append(members[0])
        text = draw(gap) + "{" + ",".join(members) + draw(gap) + "}" + draw(gap)
        raw = text.encode("utf-8", "surrogatepass")
        if nearly_right and draw(st.integers(0, 29)) == 29:
            at = draw(st.integers(0, len(raw)))
            raw = raw[:at] + draw(st.binary(max_size=2)) + raw[at + 1 :]
        records.append(raw)
    return columns, records


ANSWERED = {"fast": 0, "exact": 0}
MANY = 16
"""Times a record is repeated so that a batch has enough records for the fast path."""


@examples(
    500,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(batches())
@example(((Field("a", types.BIGINT),), [b'{"a":', b'{"b":1}} {"a":5}']))
@example(((Field("a", types.BIGINT),), [b'{"a":{}', b'{"b":1}} {"a":5}']))
@example(((Field("a", types.BIGINT),), [b"null"]))
@example(((Field("a", types.BIGINT),), [b'{"a":1}', b"null", b'{"a":2}']))
@example(((Field("a", Decimal(5, 2)),), [b'{"a":12345}']))
@example(((Field("a", types.VARCHAR),), [b'{"a":"\xff"}']))
@example(((Field("a", types.BIGINT),), [b'{"a":1,"b":"\xff"}']))
@example(((Field("a", types.BIGINT),), [b'{"a":1,"\x80":"b"}']))
@example(((Field("a", types.BIGINT),), [b'{"a":1,"b":-NaN}']))
@example(((Field("a", types.BIGINT),), [b'{"b":' + b"[" * 200 + b"]" * 200 + b"}"]))
@example(((Field("a", types.BIGINT),), [b'{"b":' + b"[" * 300 + b"]" * 300 + b',"a":1}']))
@example(((Field("a", types.BIGINT),), [b'{"b":' + b'{"x":' * 300 + b"1" + b"}" * 300 + b"}"]))
@example(((Field("a", types.BIGINT),), [b'{"b":Inf,"a":1}']))
@example(((Field("a", types.BIGINT),), [b'{"b":1,"b":2,"a":1}']))
@example(((Field("a", types.BIGINT),), [b'\xef\xbb\xbf{"a":1}']))
def test_fast_equals_exact(case: tuple[tuple[Field, ...], list[bytes | None]]) -> None:
    columns, values = case
    decoder = JsonValues(columns)
    exact, bad = decoder._decode_exactly(values)
    for array in exact:
        array.validate(full=True)
    fast = decoder.decode_fast(values)
    ANSWERED["exact" if fast is None else "fast"] += 1
    if fast is not None:
        assert not bad, bad
        for column, got, wanted in zip(columns, fast, exact, strict=True):
            assert got.type == types.to_arrow(column.type)
            assert same(got, wanted), (column, got, wanted)


def test_both_paths_were_taken() -> None:
    if not sum(ANSWERED.values()):
        test_fast_equals_exact()
    assert min(ANSWERED.values()) > 60 / PART, ANSWERED


def same(left: pa.Array, right_: pa.Array) -> bool:
    """Equal, the sign of zero included."""
    return bool(left.equals(right_)) and str(left.to_pylist()) == str(right_.to_pylist())


OF_ONE_NUMBER = [
    (types.DOUBLE, b'{"c":-0}', -0.0),
    (types.REAL, b'{"c":-0}', -0.0),
    (types.BIGINT, b'{"c":-0}', 0),
    (Decimal(5, 2), b'{"c":-0}', decimal.Decimal("0.00")),
    (Array(types.DOUBLE), b'{"c":[-0,0,-0.0]}', [-0.0, 0.0, -0.0]),
    (types.BIGINT, b'{"c":1,"z":%s}' % (b"1" * 5000), 1),
    (types.BIGINT, b'{"c":1,"z":[-%s]}' % (b"1" * 5000), 1),
    (types.BIGINT, b'{"c":%s}' % (b"1" * 5000), None),
    (types.DOUBLE, b'{"c":%s}' % (b"1" * 5000), None),
    (Decimal(38, 0), b'{"c":"%s"}' % (b"1" * 30_000), None),
    (types.TIMESTAMP_TZ, b'{"c":"9999-12-31T23:59:59-01:00"}', None),
    (types.TIMESTAMP_TZ, b'{"c":"0001-01-01T00:00:00+01:00"}', None),
]


@pytest.mark.parametrize(("type_", "record", "expected"), OF_ONE_NUMBER)
def test_odd_values_are_the_same_alone_and_beside_a_bad_one(
    type_: Type, record: bytes, expected: Any
) -> None:
    decoder = JsonValues((Field("c", type_),))
    for values in ([record], [record] * MANY, [record, b"{"], [b"{", record]):
        (array,), bad = decoder.decode(values)
        place = values.index(record)
        assert str(array[place].as_py()) == str(expected)
        assert (place in bad) == (expected is None)


@pytest.mark.parametrize(
    ("type_", "text", "expected"),
    [
        (types.BIGINT, '{"1":2,"3":4}', [(1, 2), (3, 4)]),
        (types.BIGINT, '{"null":1}', "c key: null"),
        (types.DOUBLE, '{"1":1,"1.0":2}', "c: the key 1.0 appears twice"),
        (types.DOUBLE, '{"NaN":1," NaN":2}', "c: the key nan appears twice"),
        (types.DOUBLE, '{"0.0":1,"-0.0":2}', "c: the key -0.0 appears twice"),
        (types.REAL, '{"0.1":1,"0.10000000001":2}', "c: the key 0.1"),
        (Decimal(5, 2), '{"1":1,"1.00":2}', "c: the key 1.00 appears twice"),
        (types.TIMESTAMP_TZ, '{"2024-01-01T00:00:00Z":1,"2024-01-01 00:00:00Z":2}', "c: the key"),
        (types.BOOLEAN, '{"true":1,"false":2}', [(True, 1), (False, 2)]),
        (Array(types.BIGINT), '{"[1]":1,"[1 ]":2}', "c: the key [1] appears twice"),
        (types.VARCHAR, '{"1":1,"1.0":2}', [("1", 1), ("1.0", 2)]),
    ],
)
def test_the_keys_of_a_map_are_there_and_differ(type_: Type, text: str, expected: Any) -> None:
    column = Field("c", Map(type_, types.BIGINT))
    (array,), bad = JsonValues((column,)).decode([b'{"c":%s}' % text.encode(), b'{"c":{}}'])
    found = {0: bad[0][: len(expected)]} if bad else array.to_pylist()[0]
    assert found == ({0: expected} if isinstance(expected, str) else expected)
    assert array[1].as_py() == []


DOCUMENTS = st.recursive(
    ODD | st.text(max_size=3).map(json.dumps),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: f"[{' , '.join(items)}]")
        | st.dictionaries(st.sampled_from(["b", "a", "\u00e9"]), inner, max_size=3).map(
            lambda pairs: "{" + ",".join(f"{json.dumps(k)}: {v}" for k, v in pairs.items()) + "}"
        )
    ),
    max_leaves=4,
)


@examples(400, derandomize=True)
@given(DOCUMENTS)
def test_a_column_of_type_json_holds_whatever_json_has(text: str) -> None:
    pairs: list[list[tuple[str, Any]]] = []

    def read(given: list[tuple[str, Any]]) -> dict[str, Any]:
        pairs.append(given)
        return dict(given)

    try:
        meant = json.loads(
            text,
            parse_float=decimal.Decimal,
            parse_int=decimal.Decimal,
            object_pairs_hook=read,
            parse_constant=lambda word: json.loads(""),  # JSON has no such number
        )
        is_good = all(len(dict(given)) == len(given) for given in pairs)
        json.dumps(meant, ensure_ascii=False, default=str).encode()  # no half of a surrogate pair
    except ValueError:
        is_good = False
    record = f'{{"c":{text},"r":{{"c":{text}}}}}'.encode()
    columns = (Field("c", types.JSON), Field("r", Row((Field("c", types.JSON),))))
    (array, row), bad = JsonValues(columns).decode([record, b"{}"])
    assert (not bad) == is_good
    assert array[1].as_py() is None
    if is_good:
        found = array[0].as_py()
        assert found == row[0].as_py()["c"] == json_texts.parsed(found)
        assert json.loads(found, parse_float=decimal.Decimal, parse_int=decimal.Decimal) == meant
        for one in (JsonDocuments(columns[0]), TextValues(columns[0])):
            (whole,), bad = one.decode([text.encode(), None])
            assert (whole.to_pylist(), bad) == ([found, None], {})


@pytest.mark.parametrize("end", ["", "\n"])
def test_a_mark_of_the_order_of_bytes_is_no_fault(end: str) -> None:
    columns = (Field("a", types.BIGINT),)
    record = b'\xef\xbb\xbf{"a":1}' + end.encode()
    assert [field.name for field in infer_json([record]).columns] == ["a"]
    (array,), bad = JsonValues(columns).decode([record, b'{"a":2}', b"\xef\xbb\xbf\xef\xbb\xbf{}"])
    assert list(bad) == [2]
    assert array.to_pylist() == [1, 2, None]
    document = Field("c", Row(columns))
    (array,), bad = JsonDocuments(document).decode([record])
    assert (array.to_pylist(), bad) == ([{"a": 1}], {})


@examples(300, derandomize=True)
@given(batches())
def test_a_record_does_not_depend_on_its_batch(
    case: tuple[tuple[Field, ...], list[bytes | None]],
) -> None:
    columns, values = case
    decoder = JsonValues(columns)
    together, bad = decoder.decode(values * MANY)
    for index, value in enumerate(values):
        alone, alone_bad = decoder.decode([value])
        assert (0 in alone_bad) == (index in bad)
        for whole, single in zip(together, alone, strict=True):
            assert same(whole.slice(index, 1), single)


@examples(60, derandomize=True)
@given(batches(), st.integers(0, 300))
@example(((Field("a", types.BIGINT),), [b'{"a":1}', b'{"a":"x"}', b'{"a":2}\n']), 150)
@example(((Field("a", types.BIGINT),), [b'{"a":"x"}'] * 200), 50)
def test_odd_records_among_many_change_nothing(
    case: tuple[tuple[Field, ...], list[bytes | None]], place: int
) -> None:
    columns, odd = case
    decoder = JsonValues(columns)
    values = [b"{}"] * place + odd + [b"{}"] * (300 - place)
    arrays, bad = decoder.decode(values)
    exact, exact_bad = decoder._decode_exactly(values)
    assert bad == exact_bad
    assert all(map(same, arrays, exact))


@pytest.mark.parametrize("type_", SCALARS, ids=str)
def test_right_values_are_accepted(type_: Type) -> None:
    column = Field("c", type_)

    @examples(60, derandomize=True)
    @given(right(type_))
    def check(value: Any) -> None:
        arrays, bad = JsonValues((column,)).decode([json.dumps({"c": value}).encode()])
        assert not bad
        assert arrays[0].null_count == 0

    check()


@pytest.mark.parametrize(
    ("values", "type_"),
    [
        ((1.5, "NaN"), types.DOUBLE),
        (("-Infinity", 1), types.DOUBLE),
        (("Infinity", None), types.VARCHAR),
        (("NaN", "a"), types.VARCHAR),
        (([1, "NaN"], []), Array(types.DOUBLE)),
    ],
)
def test_numbers_that_json_lacks_are_written_as_text(values: Any, type_: Type) -> None:
    records = [json.dumps({"c": value}).encode() for value in values]
    assert infer_json(records).columns == (Field("c", type_),)
    (array,), bad = JsonValues((Field("c", type_),)).decode(records)
    assert bad == {}
    wanted = [float(v) if type_ == types.DOUBLE and v is not None else v for v in values]
    if isinstance(type_, Array):
        wanted = [[float(v) for v in value] for value in values]
    assert str(array.to_pylist()) == str(wanted)

"""Goal: a value is the same Python value whatever it is nested in, and costs no time zone.

Method: columns of every nesting of moments, generated, against the definition: Arrow's own values,
moved to UTC one by one. What is looked up while a large column is read is counted.
"""

from __future__ import annotations

import datetime
import sys
import uuid
from types import FrameType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import examples

from seamline.dbapi.parameters import value_to_json
from seamline.dbapi.values import arrow_converter, json_converter, row_field

ZONED = "timestamp with time zone"
MOMENTS = st.none() | st.datetimes(timezones=st.just(datetime.UTC))
LEAVES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    ZONED: (pa.timestamp("us", "UTC"), MOMENTS),
    "timestamp": (pa.timestamp("us"), st.none() | st.datetimes()),
    "bigint": (pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
    "varchar": (pa.string(), st.none() | st.text(max_size=3)),
}
Shape = tuple[str, pa.DataType, st.SearchStrategy[Any]]


def array(inner: Shape) -> Shape:
    name, type_, values = inner
    return f"array({name})", pa.list_(type_), st.none() | st.lists(values, max_size=3)


def row(inner: Shape) -> Shape:
    name, type_, values = inner
    made = pa.struct([("at", type_), ("n", pa.int64())])
    rows = st.fixed_dictionaries({"at": values, "n": st.none() | st.integers(0, 9)})
    return f"row(at {name}, n bigint)", made, st.none() | rows


def map_(inner: Shape) -> Shape:
    name, type_, values = inner
    made = pa.map_(pa.string(), type_)
    entries = st.dictionaries(st.text(max_size=2), values, max_size=3)
    return f"map(varchar, {name})", made, st.none() | entries.map(lambda d: list(d.items()))


SHAPES = st.recursive(
    st.sampled_from([(name, *leaf) for name, leaf in LEAVES.items()]),
    lambda inner: st.builds(array, inner) | st.builds(row, inner) | st.builds(map_, inner),
    max_leaves=2,
)


def defined(value: Any, type_: pa.DataType) -> Any:
    """The value as the definition has it."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        return {key: defined(item, type_.item_type) for key, item in value}
    if pa.types.is_list(type_):
        return [defined(item, type_.value_type) for item in value]
    if pa.types.is_struct(type_):
        return {field.name: defined(value[field.name], field.type) for field in type_}
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        return value.astimezone(datetime.UTC)
    return value


@examples(100, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_a_moment_is_the_same_wherever_it_is(data: st.DataObject) -> None:
    name, type_, values = data.draw(SHAPES)
    start = data.draw(st.integers(0, 2))
    column = pa.array(data.draw(st.lists(values, max_size=6)), type_).slice(start)
    found = arrow_converter(name)(column)
    assert repr(found) == repr([defined(value, type_) for value in column.to_pylist()])


def test_fields_without_names_are_called_by_their_place() -> None:
    assert row_field("timestamp(3) with time zone", 2) == (
        "field2",
        "timestamp(3) with time zone",
    )
    assert row_field("interval day to second", 0) == ("field0", "interval day to second")
    assert row_field('"a ""b" uuid', 1) == ('a "b', "uuid")
    name = "row(bigint, uuid, a uuid)"
    one = uuid.UUID(int=1)
    sent = {"field0": 1, "field1": str(one), "a": str(one)}
    assert json_converter(name)(sent) == {"field0": 1, "field1": one, "a": one}


def test_a_time_with_time_zone_is_text_on_its_way() -> None:
    column = pa.array(["10:00:00.5+02:00", None])
    east = datetime.timezone(datetime.timedelta(hours=2))
    there = datetime.time(10, 0, 0, 500_000, east)
    name = "time(1) with time zone"
    assert arrow_converter(name)(column) == [there, None]
    assert [json_converter(name)(cell) for cell in column.to_pylist()] == [there, None]
    assert value_to_json(there) == {
        "type": "time with time zone",
        "value": "10:00:00.500000+02:00",
    }


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", ["UTC", "+02:00", "Europe/Zurich"])
def test_every_unit_and_zone_is_utc(unit: str, zone: str) -> None:
    column = pa.array([0, None, 10**9], pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    first, none, later = arrow_converter(ZONED)(column)
    assert first == datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    assert none is None
    assert later.isoformat() == "2001-09-09T01:46:40+00:00"
    assert {first.tzinfo, later.tzinfo} == {datetime.UTC}


@pytest.mark.parametrize(
    ("name", "nest"),
    [
        (ZONED, lambda moments: moments),
        (
            f"array({ZONED})",
            lambda moments: pa.ListArray.from_arrays(range(len(moments) + 1), moments),
        ),
        (f"row(at {ZONED})", lambda moments: pa.StructArray.from_arrays([moments], ["at"])),
    ],
)
def test_no_time_zone_is_looked_up_for_a_value(name: str, nest: Any) -> None:
    """A profile sees what is called for each value."""
    size = 2_000
    moments = pa.array(range(size), pa.timestamp("us", "Europe/Zurich"))
    convert, column = arrow_converter(name), nest(moments)
    zones: list[str] = []

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and getattr(called, "__name__", "") in {"astimezone", "fromutc"}:
            zones.append(called.__name__)
        elif event == "call" and "zone" in frame.f_code.co_filename:
            zones.append(frame.f_code.co_name)

    sys.setprofile(watch)
    try:
        found = convert(column)
    finally:
        sys.setprofile(None)
    assert len(found) == size
    assert zones == []

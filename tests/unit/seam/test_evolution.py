"""Goal: each way in which a schema may differ from a table's columns has its answer, and is named.

Method: columns and a record's fields as they are written in CREATE TABLE, and the changes in words.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from seamline.errors import SeamlineError
from seamline.gateway.commands.tables import parse_fields
from seamline.seam.encoding import Encoding, parse_sources
from seamline.seam.evolution import (
    Alternatives,
    Change,
    Packed,
    Watch,
    changes,
    dropped_columns,
)
from seamline.seam.table import TableSchema, TableState
from seamline.sql.columns import METADATA_FIELDS
from seamline.sql.types import BIGINT, VARCHAR, Array, Field, Row, Unsupported


def said(columns: str, record: str, **further: object) -> list[str]:
    own = (*parse_fields(columns), *METADATA_FIELDS)
    found: Sequence[Change] = changes(own, Row(parse_fields(record)), **further)  # type: ignore[arg-type]
    return [str(change) for change in found]


@pytest.mark.parametrize(
    ("columns", "record", "expected"),
    [
        ("a integer", "a integer, b varchar", ["b varchar is new"]),
        ("a integer, b varchar", "a integer", []),
        ("a integer", "a bigint", ["a integer becomes bigint"]),
        ("a bigint", "a integer", []),
        ("a real", "a double", ["a real becomes double"]),
        ("a double", "a real", []),
        ("a decimal(5, 2)", "a decimal(9, 2)", ["a decimal(5,2) becomes decimal(9,2)"]),
        ("a decimal(9, 2)", "a decimal(5, 2)", []),
        ("a decimal(9, 4)", "a decimal(9, 2)", ["a decimal(9,4) becomes decimal(11,4)"]),
        ("a row(b integer)", "a row(b bigint, c date)",
         ["a.b integer becomes bigint", "a.c date is new"]),
        ("a array(row(b real))", "a array(row(b double))", ["a.element.b real becomes double"]),
        ("a map(varchar, integer)", "a map(varchar, bigint)",
         ["a.value integer becomes bigint"]),
        ("a map(varchar, array(row(b integer)))", "a map(varchar, array(row(c date)))",
         ["a.value.element.c date is new"]),
        ("a timestamp(6)", "a timestamp(6) with time zone", []),
        ("a timestamp(6), b decimal(9, 2), c date", "a bigint, b double, c varchar", []),
    ],
)  # fmt: skip
def test_columns_become_what_holds_both(columns: str, record: str, expected: list[str]) -> None:
    assert said(columns, record) == expected


@pytest.mark.parametrize(
    ("columns", "record", "reason"),
    [
        ("a varchar", "a integer", "a: its type is varchar, and a field of type integer"),
        ("a integer", "a varchar", "cannot become it"),
        ("a bigint", "a double", "cannot become it"),
        ("a decimal(9, 2)", "a decimal(9, 4)", "cannot become it"),
        ("a decimal(38, 4)", "a decimal(38, 2)", "cannot become it"),
        ("a date", "a timestamp(6)", "cannot become it"),
        ("a timestamp(6)", "a date", "cannot become it"),
        ("a row(b integer)", "a integer", "cannot become it"),
        ("a row(b array(integer))", "a row(b array(varchar))", "a.b.element: its type"),
        ("a integer NOT NULL, b integer", "b integer", "a: it is required"),
        ("a integer", "a integer, A integer", "there is a column a (case is ignored)"),
        ("a integer", "a integer, _kafka_offset bigint", "_kafka_offset"),
        ("a integer", "a integer, _file varchar", "its name is reserved"),
        ("a integer", "a integer, b row(c time)", "b.c: Spark cannot write"),
    ],
)
def test_what_no_column_can_become_is_named(columns: str, record: str, reason: str) -> None:
    with pytest.raises(SeamlineError) as caught:
        said(columns, record)
    assert caught.value.code.name == "SCHEMA_INCOMPATIBLE"
    assert reason in caught.value.message


def renamed(record: str, **had: tuple[str, ...]) -> Row:
    return Row(
        tuple(dataclasses.replace(f, aliases=had.get(f.name, ())) for f in parse_fields(record))
    )


def test_a_field_that_says_its_old_name_renames_its_column_once() -> None:
    columns = parse_fields("price integer, n integer")
    record = renamed("cost bigint, n integer", cost=("price",))
    found = changes(columns, record)
    assert [str(change) for change in found] == [
        "price is called cost",
        "price integer becomes bigint",
    ]
    now = (Field("cost", columns[0].type, aliases=("price",)), columns[1])
    assert changes(now, renamed("price integer, n integer", price=("cost",))) == ()
    assert changes(now, parse_fields_row("price integer, n integer")) == ()
    with pytest.raises(SeamlineError, match="cost once had that name"):
        changes(now, parse_fields_row("cost integer, price integer"))
    with pytest.raises(SeamlineError, match="other settings of the table name it"):
        changes(columns, record, watch=Watch(is_tiering=True, fixed=("price",)))


def parse_fields_row(text: str) -> Row:
    return Row(parse_fields(text))


def test_a_field_that_says_it_was_two_columns_or_another_is_refused() -> None:
    columns = parse_fields("a integer, b integer")
    for record in (renamed("c integer", c=("a", "b")), renamed("b integer", b=("a",))):
        with pytest.raises(SeamlineError, match="another column"):
            changes(columns, record)


def test_who_reads_needs_no_columns_and_no_names() -> None:
    columns = parse_fields("a integer, n integer")
    record = renamed("b bigint, n integer, N date, t time", b=("a",))
    (change,) = changes(columns, record, watch=Watch())
    assert str(change) == "a integer becomes bigint"


def test_what_no_column_holds_is_left_out() -> None:
    odd = Field("odd", Unsupported("a union"))
    record = Row((odd, Field("r", Row((odd, Field("x", parse_fields("x date")[0].type))))))
    (change,) = changes(parse_fields("a integer"), record)
    assert str(change) == "r row(x date) is new"
    assert changes(parse_fields("odd integer"), Row((odd,))) == ()


def test_the_field_that_marks_deletes_becomes_no_column() -> None:
    marked = Encoding("avro", options=(("deleted_by", "gone"),))
    assert said("a integer", "a integer, gone varchar", encoding=marked) == []
    assert said("a integer, gone real", "a integer, gone double", encoding=marked) == [
        "gone real becomes double"
    ]
    for mark in ("op = d", "op.gone"):  # other records have other values there
        kept = Encoding("avro", options=(("deleted_by", mark),))
        assert said("a integer", "a integer, op varchar", encoding=kept) == ["op varchar is new"]


def test_columns_from_elsewhere_are_left_and_their_fields_known() -> None:
    sources = parse_sources(["id = key, n = value.inner.n, v = value.w, at = timestamp"])
    encoding = Encoding("avro", "int64", sources)
    columns = "id bigint, n integer, v integer, at timestamp(6), x integer"
    record = "inner row(n bigint, m date), w integer, x integer, y date"
    assert said(columns, record, encoding=encoding) == [
        "n integer becomes bigint",
        "y date is new",
    ]
    assert said(columns, "id varchar, x integer", encoding=encoding) == []
    with pytest.raises(SeamlineError, match="ID: its name is reserved"):
        said(columns, "ID varchar", encoding=encoding)


def test_a_row_column_for_all_of_a_value() -> None:
    encoding = Encoding("avro", "int64", parse_sources(["id = key, body = value"]))
    found = said("id bigint, body row(a integer)", "a bigint, b date", encoding=encoding)
    assert found == ["body.a integer becomes bigint", "body.b date is new"]


def test_the_row_inside_of_an_envelope() -> None:
    found = said(
        "id bigint, n integer",
        "op varchar, before row(id bigint, n bigint), after row(id bigint, n bigint, m date)",
        row=("after",),
    )
    assert found == ["n integer becomes bigint", "m date is new"]


def test_what_the_owner_has_dropped_stays_away() -> None:
    def schema(number: int, *fields: Field) -> TableSchema:
        return TableSchema(number, fields)

    (a, b) = parse_fields("a integer, b integer")
    row = Array(Row((Field("x", parse_fields("x date")[0].type, 4),)), 5)
    first = (
        dataclasses.replace(a, field_id=1),
        dataclasses.replace(b, field_id=2),
        Field("r", row, 3),
    )
    now = (dataclasses.replace(first[0], name="c"), Field("q", Array(Row(()), 5), 3))
    state = TableState(
        name=("t",),
        uuid="",
        properties={},
        schemas={0: schema(0, *first), 1: schema(1, *now)},
        current_schema_id=1,
        snapshots={},
        refs={},
        current_snapshot_id=None,
    )
    gone = dropped_columns(state)
    assert gone == (("b",), ("q", "element", "x"))
    record = parse_fields_row("c integer, b integer, q array(row(x date))")
    assert changes(now, record, watch=Watch(is_tiering=True, dropped=gone)) == ()


def test_a_row_of_branches_follows_its_union() -> None:
    union = Alternatives((VARCHAR, BIGINT), (("string", "long"), ("member0", "member1")))
    record = Row((Field("u", union),))
    for columns, expected in [
        ("id integer", ["u row(string varchar, long bigint) is new"]),
        ("u row(string varchar, long bigint)", []),
        ("u row(member0 varchar)", ["u.member1 bigint is new"]),
        ("u row(string varchar, double double)", ["u.long bigint is new"]),
        ("u row(member0 varchar, member1 integer)", ["u.member1 integer becomes bigint"]),
        ("u varchar", []),
        ("u row(of integer)", []),
    ]:
        assert [str(c) for c in changes(parse_fields(columns), record)] == expected, columns


def test_records_from_before_a_union_fit_its_row() -> None:
    columns = parse_fields("u row(string varchar, long bigint, Order row(id bigint))")
    for type_ in ("varchar", "bigint", "row(id bigint)"):
        assert not changes(columns, Row(parse_fields(f"u {type_}")))


@pytest.mark.parametrize(
    ("column", "type_", "expected"),
    [
        ("number bigint, object row(x bigint)", "integer", []),
        ("number bigint, string varchar", "uuid", []),
        ("number bigint, string varchar", "date", []),
        ("number integer, string varchar", "bigint", ["u.number integer becomes bigint"]),
        ("number bigint, string varchar", "boolean", ["u.boolean boolean is new"]),
        ("number bigint, object row(x bigint)", "row(y date)", ["u.object.y date is new"]),
        ("number bigint, array array(row(x integer))", "array(row(x bigint))",
         ["u.array.element.x integer becomes bigint"]),
        ("number bigint, object map(varchar, bigint)", "map(varchar, integer)", []),
    ],
)  # fmt: skip
def test_a_row_with_a_field_per_type_of_json_takes_a_schema_with_one_of_them(
    column: str, type_: str, expected: list[str]
) -> None:
    spelt = Encoding("json_schema", options=(("spellings", "json_text,several_types"),))
    assert said(f"u row({column})", f"u {type_}", encoding=spelt) == expected


def test_whole_columns_take_numbers_that_may_be_whole_only_of_json() -> None:
    columns, record = "a bigint, b row(c integer)", "a double, b row(c double)"
    assert said(columns, record, encoding=Encoding("json_schema")) == []
    for value in ("avro", "protobuf"):
        with pytest.raises(SeamlineError, match=r"a: its type is bigint, .* of type double"):
            said(columns, record, encoding=Encoding(value))


def test_a_number_that_its_field_of_several_types_may_hold() -> None:
    spelt = Encoding("json_schema", options=(("spellings", "several_types"),))
    assert said("u row(number bigint, string varchar)", "u double", encoding=spelt) == []


def test_a_row_of_messages_stays_and_a_new_any_is_a_row_of_its_own_fields() -> None:
    plain = Row(parse_fields("type_url varchar, value varbinary"))
    record = Row((Field("c", Packed(plain)),))
    for type_ in ('row("@type" varchar, "Order" row(id bigint))', "json", str(plain)):
        assert changes(parse_fields(f"c {type_}"), record) == ()
    assert list(map(str, changes((), record))) == [f"c {plain} is new"]
    with pytest.raises(SeamlineError, match="c: its type is bigint"):
        changes(parse_fields("c bigint"), record)

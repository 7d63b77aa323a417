"""Goal: the values of an Arrow table stay the same, whatever that is a slice of, for DuckDB and us.

Method: columns of every way to put rows, arrays and maps into each other, four deep, whole, sliced,
in chunks, and made of slices; each through everything that hands Arrow to DuckDB.
"""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import (
    _check_arrow_table_timestamps_localize,
    from_arrow_schema,
)

from seamline.connectors.arrow import conform
from seamline.connectors.duckdb.instances import Instance
from seamline.sql.kernels.kernel import evaluated
from seamline.sql.slices import whole

COUNT = 12
SHAPES: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "row": lambda inner: pa.struct([("x", pa.int32()), ("y", inner)]),
    "array": pa.list_,
    "map": lambda inner: pa.map_(pa.string(), inner),
}
LEAVES = (pa.int64(), pa.string(), pa.bool_(), pa.decimal128(20, 10))


def value(type_: pa.DataType, n: int, depth: int = 0) -> Any:
    """A value that its number distinguishes from every other, or null."""
    if (n * 7 + depth * 3) % 6 == 5:
        return None
    if pa.types.is_struct(type_):
        return {f.name: value(f.type, n * 3 + i + 1, depth + 1) for i, f in enumerate(type_)}
    if pa.types.is_map(type_):
        return [(f"k{i}", value(type_.item_type, n * 5 + i, depth + 1)) for i in range(n % 3)]
    if pa.types.is_list(type_):
        return [value(type_.value_type, n * 5 + i, depth + 1) for i in range(n % 4)]
    if pa.types.is_boolean(type_):
        return n % 2 == 0
    return {pa.string(): str, pa.int64(): int}.get(type_, decimal.Decimal)(n)


def forms(whole: pa.Array) -> Iterator[pa.ChunkedArray]:
    """The array whole, and what is cut out of it and put together of cuts."""
    for start, end in ((0, COUNT), (0, 5), (3, COUNT), (4, 9), (COUNT - 1, COUNT)):
        yield pa.chunked_array([whole.slice(start, end - start)])
    yield pa.chunked_array([whole.slice(0, 2), whole.slice(2, 5), whole.slice(7)])
    if pa.types.is_struct(whole.type):
        children = [whole.field(i).slice(2) for i in range(whole.type.num_fields)]
        made = pa.StructArray.from_arrays(children, fields=list(whole.type))
        yield pa.chunked_array([made])


def registered(instance: Instance, rows: pa.Table) -> pa.Table:
    instance.register("rows", rows)
    return instance.connection.sql("SELECT v FROM rows").to_arrow_table()


def copied(instance: Instance, rows: pa.Table) -> pa.Table:
    instance.copy("copy", rows)
    return instance.connection.sql("SELECT v FROM copy").to_arrow_table()


def evaluated_by_a_kernel(_: Instance, rows: pa.Table) -> pa.Table:
    parts = [evaluated("v", {"v": chunk}) for chunk in rows.column("v").chunks]
    return pa.table({"v": pa.chunked_array(parts)})


@pytest.mark.one_in(test=3, prove=3)
@pytest.mark.parametrize("depth", [1, 2, 3, pytest.param(4, marks=pytest.mark.prove)])
@pytest.mark.parametrize("read", [registered, copied, evaluated_by_a_kernel])
def test_what_is_cut_out_of_a_table_reads_as_itself(
    read: Callable[[Instance, pa.Table], pa.Table], depth: int
) -> None:
    with duckdb.connect(config={"threads": "1"}) as connection:
        instance = Instance(connection)
        for shape, leaf in itertools.product(itertools.product(SHAPES, repeat=depth), LEAVES):
            type_ = leaf
            for name in reversed(shape):
                type_ = SHAPES[name](type_)
            for form in forms(pa.array([value(type_, n) for n in range(COUNT)], type_)):
                found = read(instance, pa.table({"v": form}))
                assert found.column("v").to_pylist() == form.to_pylist(), (shape, leaf)
                instance.end()
                instance.begin()


WIDER = {
    pa.int64(): pa.decimal128(20, 0),
    pa.string(): pa.binary(),
    pa.decimal128(20, 10): pa.decimal128(38, 10),
}


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_a_slice_is_converted_as_what_it_is_cut_out_of(depth: int) -> None:
    for shape, leaf in itertools.product(itertools.product(SHAPES, repeat=depth), WIDER):
        type_, wanted = leaf, WIDER[leaf]
        for name in reversed(shape):
            type_, wanted = SHAPES[name](type_), SHAPES[name](wanted)
        whole = pa.array([value(type_, n) for n in range(COUNT)], type_)
        schema = pa.schema([("v", wanted)])
        for start, end in ((0, COUNT), (0, 5), (3, COUNT), (4, 9)):
            batch = pa.record_batch({"v": whole.slice(start, end - start)})
            of_slice = conform(batch, schema).column(0).to_pylist()
            of_whole = conform(pa.record_batch({"v": whole}), schema).column(0)
            assert of_slice == of_whole.to_pylist()[start:end], (shape, leaf)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_pyspark_takes_what_begins_where_its_buffers_do(depth: int) -> None:
    """Its own check of its input recreates lists, as it does for a data frame."""
    for shape, leaf in itertools.product(itertools.product(SHAPES, repeat=depth), LEAVES):
        type_ = leaf
        for name in reversed(shape):
            type_ = SHAPES[name](type_)
        for form in forms(pa.array([value(type_, n) for n in range(COUNT)], type_)):
            rows = whole(pa.table({"v": form}))
            schema = from_arrow_schema(rows.schema)
            taken = _check_arrow_table_timestamps_localize(rows, schema, True, "UTC")
            assert taken.column("v").to_pylist() == form.to_pylist(), (shape, leaf)


def test_offsets_that_were_left_out_are_there() -> None:
    """Java writes none for lists that are all empty; without them, asking for a size crashes."""
    none = pa.foreign_buffer(0, 0)
    inner = pa.Array.from_buffers(
        pa.list_(pa.string()), 0, [None, none], children=[pa.array([], pa.string())]
    )
    type_ = pa.map_(pa.int32(), inner.type)
    entries = pa.StructArray.from_arrays(
        [pa.array([], pa.int32()), inner], fields=[type_.key_field, type_.item_field]
    )
    empty = pa.Array.from_buffers(type_, 2, [None, pa.py_buffer(bytes(12))], children=[entries])
    table = whole(pa.table({"x": empty}))
    assert table.nbytes > 0
    assert table.column("x").to_pylist() == [[], []]

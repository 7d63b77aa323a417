"""Goal: no few bytes that a client of Flight SQL sends become many in the gateway.

Method: rows that are small as they travel and huge as values: compressed, without any bytes, of
values that all rows share. Each is refused before Arrow unpacks it. Whatever else of a message is
changed is refused by name, or is rows; and what honest clients send is read, however it is encoded.
"""

from __future__ import annotations

import struct
import types
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.damaged import damaged
from support.gateway import Gateway

from seamline.errors import INVALID_PARAMETERS, INVALID_REQUEST, SeamlineError
from seamline.gateway.flight import messages, parameter_rows
from seamline.gateway.flight.parameter_rows import read_rows
from seamline.gateway.flight.prepared import Description, Prepared

BYTES_MAX = 1 << 20
MANY = 2**31 - 1
TEXT = "x" * 500_000
NAMED = Description(False, pa.schema([]), pa.schema([]), takes_names=True)


def sent(table: pa.Table, compression: str | None = None) -> list[Any]:
    """Rows as messages of Flight."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    found = []
    for message in pa.ipc.MessageReader.open_stream(sink.getvalue()):
        body = message.body.to_pybytes() if message.body is not None else b""
        header = message.metadata.to_pybytes()
        found.append(types.SimpleNamespace(data_header=header, data_body=body))
    return found


def lying(table: pa.Table) -> list[Any]:
    """A buffer that says it holds more than there is."""
    found = sent(table, "zstd")
    body = bytearray(found[-1].data_body)
    (length,) = struct.unpack_from("<q", body)
    assert length == 80_000
    struct.pack_into("<q", body, 0, 1 << 61)
    found[-1].data_body = bytes(body)
    return found


def column(array: pa.Array) -> pa.Table:
    return pa.table({"0": array})


def nulls(count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.null(), count, [None])


def same_view(count: int) -> pa.Array:
    _, view, text = pa.array([TEXT], pa.string_view()).buffers()
    views = pa.py_buffer(view.to_pybytes()[:16] * count)
    return pa.Array.from_buffers(pa.string_view(), count, [None, views, text])


def numbers(count: int) -> pa.Array:
    return pa.array([0]).take(pa.array([0] * count))


BOMBS: dict[str, Callable[[], list[Any]]] = {
    "zeros, by zstd": lambda: sent(column(pa.array(["\0" * 20_000_000])), "zstd"),
    "zeros, by lz4": lambda: sent(column(pa.array(["\0" * 20_000_000])), "lz4"),
    "a length that is a lie": lambda: lying(column(numbers(10_000))),
    "nulls": lambda: sent(column(nulls(MANY))),
    "lists of nulls": lambda: sent(
        column(pa.ListArray.from_arrays(pa.array([0, MANY], pa.int32()), nulls(MANY)))
    ),
    "lists of a fixed size": lambda: sent(
        column(pa.FixedSizeListArray.from_arrays(nulls(MANY), MANY))
    ),
    "structures of nothing": lambda: sent(
        column(pa.Array.from_buffers(pa.struct([]), MANY, [None]))
    ),
    "binaries of nothing": lambda: sent(
        column(pa.Array.from_buffers(pa.binary(0), MANY, [None, pa.py_buffer(b"")]))
    ),
    "runs": lambda: sent(
        column(pa.RunEndEncodedArray.from_arrays(pa.array([MANY], pa.int32()), pa.array([1])))
    ),
    "a dictionary": lambda: sent(
        column(pa.DictionaryArray.from_arrays(pa.array([0] * 300_000, pa.int8()), [TEXT]))
    ),
    "a dictionary in lists": lambda: sent(
        column(
            pa.ListArray.from_arrays(
                pa.array(range(300), pa.int32()),
                pa.DictionaryArray.from_arrays(pa.array([0] * 300_000, pa.int8()), [TEXT]),
            )
        )
    ),
    "views": lambda: sent(column(same_view(20_000))),
    "views of lists": lambda: sent(
        column(
            pa.ListViewArray.from_arrays(
                pa.array([0] * 1000, pa.int32()), pa.array([100_000] * 1000, pa.int32()),
                pa.array([True] * 100_000),
            )
        )
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", BOMBS)
def test_what_would_grow_is_refused(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = BOMBS[kind]()
    size = sum(len(m.data_header) + len(m.data_body) for m in bomb)
    assert size < BYTES_MAX
    read: list[int] = []
    known = pa.ipc.open_stream

    def noted(data: bytes) -> Any:
        read.append(len(data))
        return known(data)

    monkeypatch.setattr(pa.ipc, "open_stream", noted)
    with pytest.raises(SeamlineError) as caught:
        read_rows(bomb, BYTES_MAX)
    assert caught.value.code is INVALID_REQUEST
    shared = kind.startswith(("a dictionary", "views"))
    assert bool(read) is shared, "what is shared is small until it is a value"


HONEST = {
    "numbers": column(numbers(5_000)),
    "texts": column(pa.array(["a", None, "ü" * 300])),
    "nulls": column(nulls(3)),
    "lists": column(pa.array([[1, 2], [], None, [3]])),
    "rows": column(pa.array([{"a": 1, "b": ["x"]}, None])),
    "a dictionary": column(pa.array(["a", "b", "a", None]).dictionary_encode()),
    "views": column(pa.array(["a" * 40, "b"], pa.string_view())),
    "runs": column(pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])),
    "nothing": pa.table({}),
    "no rows": column(pa.array([], pa.int64())),
}


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
@pytest.mark.parametrize("kind", HONEST)
def test_what_is_honest_is_read(kind: str, compression: str | None) -> None:
    assert read_rows(sent(HONEST[kind], compression), BYTES_MAX) == HONEST[kind]


def test_what_a_message_says_of_its_size_is_what_arrow_makes_of_it() -> None:
    for table in HONEST.values():
        for compression in (None, "zstd"):
            size = sum(
                parameter_rows._Size.of(m.data_header, m.data_body).length
                for m in sent(table, compression)
            )
            assert size >= table.nbytes


@pytest.mark.parametrize(
    "count",
    [
        pytest.param(100, id="few", marks=pytest.mark.prove),
        pytest.param(20_000, id="many", marks=pytest.mark.soak),
    ],
)
def test_messages_that_went_wrong_are_refused_by_name(count: int) -> None:
    valid = [sent(table, codec) for table in HONEST.values() for codec in (None, "zstd")]

    @settings(
        max_examples=count, deadline=None, derandomize=True, database=None,
        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        found = list(data.draw(st.sampled_from(valid)))
        place = data.draw(st.integers(0, len(found) - 1))
        header, body = found[place].data_header, found[place].data_body
        if data.draw(st.integers(0, 3)):
            header = damaged(header, data)
        else:
            body = damaged(body, data)
        found[place] = types.SimpleNamespace(data_header=header, data_body=body)
        try:
            rows = read_rows(found, BYTES_MAX)
            Prepared("SELECT 1", NAMED, rows).parameter_sets()
        except SeamlineError as error:
            assert error.code in {INVALID_REQUEST, INVALID_PARAMETERS}

    ask()


MOMENTS = (pa.timestamp("ns"), pa.timestamp("s"), pa.date64(), pa.time64("ns"), pa.duration("s"))


@pytest.mark.parametrize("type_", MOMENTS, ids=str)
@pytest.mark.parametrize("number", [2**63 - 1, -(2**63), 1])
def test_moments_that_python_lacks_have_a_name(type_: pa.DataType, number: int) -> None:
    rows = column(pa.array([number], pa.int64()).view(type_))
    try:
        Prepared("SELECT 1", NAMED, read_rows(sent(rows), BYTES_MAX)).parameter_sets()
    except SeamlineError as error:
        assert error.code in {INVALID_REQUEST, INVALID_PARAMETERS}


@pytest.mark.prove
def test_calls_that_unpack_to_more_than_may_be_sent(offline_gateway: Gateway) -> None:
    """GRPC compresses messages, too: as large as they are then, they are too large."""
    address = offline_gateway.flight_url.removeprefix("grpc://")
    bomb = messages.new("Action", type="CreatePreparedStatement", body=bytes(20_000_000))
    with grpc.insecure_channel(
        address, options=(("grpc.max_send_message_length", -1),), compression=grpc.Compression.Gzip
    ) as channel:
        call: Callable[..., Iterator[Any]] = channel.unary_stream(
            "/arrow.flight.protocol.FlightService/DoAction"
        )
        with pytest.raises(grpc.RpcError) as caught:
            list(call(bomb.SerializeToString(), timeout=60))
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED

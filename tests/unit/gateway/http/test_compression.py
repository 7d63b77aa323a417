"""Goal: a client that accepts an encoding gets the same answer in fewer bytes, others get it plain.

Method: answers of every kind, asked for plainly and with every encoding by a client without its own
decoding, are decompressed by Python's and Arrow's libraries and compared.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pyarrow as pa
import pytest
import urllib3
from support.gateway import Gateway

import seamline
from seamline.connectors.chunks import read_chunk

LONG = "SELECT 1000 * a.x + b.y AS n FROM UNNEST(sequence(0, 999)) AS a (x), UNNEST({}) AS b (y)"
MANY = LONG.format("sequence(0, 149)")
FEW = LONG.format("sequence(0, 4)")
ENCODINGS = ("gzip", "zstd", "br, gzip;q=0.5", "*", "deflate, zstd;q=0.1, gzip;q=0")
PLAIN = (None, "identity", "br", "gzip;q=0, zstd; q=0", "identity, *;q=0")


def decoded(answer: urllib3.BaseHTTPResponse) -> bytes:
    match answer.headers.get("Content-Encoding"):
        case "gzip":
            return gzip.decompress(answer.data)
        case "zstd":
            with pa.CompressedInputStream(pa.BufferReader(answer.data), "zstd") as stream:
                return bytes(stream.read())
    return answer.data


class Client:
    """Sends requests, and decodes nothing by itself."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool = urllib3.PoolManager()

    def get(
        self, path: str, encoding: str | None, headers: dict[str, str] | None = None
    ) -> urllib3.BaseHTTPResponse:
        given = {**(headers or {}), **({} if encoding is None else {"Accept-Encoding": encoding})}
        return self._pool.request("GET", self._url + path, headers=given, decode_content=False)

    def query(self, sql: str, form: str, encoding: str | None) -> urllib3.BaseHTTPResponse:
        headers = {"Content-Type": "application/sql"}
        if encoding is not None:
            headers["Accept-Encoding"] = encoding
        url = f"{self._url}/api/v1/query?format={form}"
        return self._pool.request("POST", url, body=sql, headers=headers, decode_content=False)


@pytest.fixture
def client(offline_gateway: Gateway) -> Client:
    return Client(offline_gateway.url)


@pytest.fixture
def connection(offline_gateway: Gateway) -> Iterator[seamline.Connection]:
    with offline_gateway.connect() as connection:
        yield connection


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("path", ["/api/v1/openapi.json", "/metrics"])
def test_what_is_long_is_compressed(client: Client, path: str, encoding: str) -> None:
    found = client.get(path, encoding)
    assert found.headers["Content-Encoding"] in {"gzip", "zstd"}
    assert "Accept-Encoding" in found.headers["Vary"]
    plain = decoded(found)
    assert len(found.data) < len(plain) / 2
    if path.endswith(".json"):
        assert plain == client.get(path, None).data


@pytest.mark.one_in(test=4)
@pytest.mark.parametrize("form", ["ndjson", "json", "csv"])
@pytest.mark.parametrize(
    ("sql", "encoding"),
    [*((FEW, encoding) for encoding in ENCODINGS), (MANY, "gzip"), (MANY, "zstd")],
)
def test_rows_are_the_same(client: Client, form: str, sql: str, encoding: str) -> None:
    found = client.query(sql, form, encoding)
    assert found.headers["Content-Encoding"] in {"gzip", "zstd"}
    plain = client.query(sql, form, None)
    assert "Content-Encoding" not in plain.headers
    assert sorted(decoded(found).split(b"\n")) == sorted(plain.data.split(b"\n"))


@pytest.mark.parametrize("encoding", PLAIN)
def test_who_accepts_no_encoding_of_ours_gets_none(client: Client, encoding: str | None) -> None:
    found = client.get("/api/v1/openapi.json", encoding)
    assert "Content-Encoding" not in found.headers
    assert found.data.startswith(b"{")


def test_what_is_short_stays_as_it_is(client: Client) -> None:
    assert "Content-Encoding" not in client.get("/api/v1/info", "gzip").headers


@pytest.mark.parametrize("encoding", ["gzip", "zstd", None])
def test_what_a_client_has_already_is_not_sent_again(client: Client, encoding: str | None) -> None:
    found = client.get("/console.js", encoding)
    assert (found.headers.get("Content-Encoding"), found.status) == (encoding, 200)
    tag = found.headers["ETag"]
    assert client.get("/console.js", encoding, {"If-None-Match": tag}).status == 304
    assert client.get("/console.js", encoding, {"If-None-Match": '"other"'}).status == 200


@pytest.mark.parametrize("compression", ["lz4", "zstd", "LZ4"])
def test_the_buffers_of_a_chunk_are_compressed(
    client: Client, connection: seamline.Connection, compression: str
) -> None:
    cursor = connection.execute(MANY)
    path = f"/api/v1/statements/{cursor.statement_id}/chunks/0"
    plain = client.get(path, "gzip, zstd")
    found = client.get(f"{path}?compression={compression}", None)
    assert "Content-Encoding" not in plain.headers
    assert len(found.data) < len(plain.data)
    assert list(read_chunk(found.data)) == list(read_chunk(plain.data))
    assert client.get(f"{path}?compression=brotli", None).status == 400


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_connection_has_its_rows_compressed(offline_gateway: Gateway, compression: str) -> None:
    with seamline.connect(offline_gateway.url, compression=compression) as connection:
        for _ in range(2):  # some come while the statement runs
            rows = connection.execute(MANY).fetch_arrow_table().column("n").to_pylist()
            assert len(rows) == len(set(rows)) == 150_000
        again = connection.again()
        assert again.compression == compression
        again.close()


def test_an_unknown_compression_is_named(offline_gateway: Gateway) -> None:
    with pytest.raises(seamline.InterfaceError, match="compression 'brotli' is not known"):
        seamline.connect(offline_gateway.url, compression="brotli")
    with pytest.raises(seamline.InterfaceError, match="embedded gateway takes no compression"):
        seamline.connect(embedded=True, compression="lz4")

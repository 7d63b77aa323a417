"""Goal: a small file of a warehouse takes no more memory than metadata may have.

Method: a table whose metadata is gzipped, and blocks of Avro, are read while little is allowed; by
PyIceberg, which loads tables, and by the reader for the Iceberg catalog.
"""

from __future__ import annotations

import binascii
import bz2
import contextlib
import gzip
import os
import pathlib
import zlib
from collections.abc import Iterator

import pyarrow as pa
import pytest
import zstandard
from pyiceberg.avro.codecs import KNOWN_CODECS, AvroCompressionCodec
from support import offline
from support.handmade import File, Handmade, column, with_ids

from seamline.connectors.iceberg import unpacking
from seamline.connectors.iceberg.metadata_files import MetadataFiles
from seamline.errors import COLD_FILE_INVALID, SeamlineError
from seamline.gateway.catalogs.connections import Connections


@pytest.fixture
def connections(tmp_path: pathlib.Path) -> Iterator[Connections]:
    with contextlib.closing(Connections(offline.config(tmp_path))) as made:
        yield made


def packed_table(folder: pathlib.Path) -> str:
    """Where the gzipped metadata of a table is."""
    rows = with_ids(pa.table({"id": pa.array([1, 2], pa.int64())}), {"id": 1})
    table = Handmade(folder / "warehouse" / "default" / "t", [[column(1, "id", "long")]])
    plain = pathlib.Path(table.write([File(rows)]).removeprefix("file://"))
    packed = plain.with_name("v1.gz.metadata.json")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    return f"file://{packed}"


def test_gzipped_metadata_is_read_within_bounds(
    tmp_path: pathlib.Path, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = connections.catalog("lake")
    catalog.pyiceberg.create_namespace("default")
    location = packed_table(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(unpacking, "BYTES_MAX", 100)
        with pytest.raises(ValueError, match="more than 100 bytes"):
            catalog.pyiceberg.register_table(("default", "t"), location)  # reads what it registers
        with pytest.raises(SeamlineError, match="more than 100 bytes") as caught:
            catalog.load(("default", "t"))
    assert caught.value.code is COLD_FILE_INVALID
    loaded = catalog.load(("default", "t"))
    assert MetadataFiles().read(loaded.iceberg.io, location, None).body["format-version"] == 2
    monkeypatch.setattr(unpacking, "BYTES_MAX", 100)
    with pytest.raises(ValueError, match="more than 100 bytes"):
        MetadataFiles().read(loaded.iceberg.io, location, None)


def packed_block(codec: str, plain: bytes) -> bytes:
    """A block as the specification of Avro says."""
    match codec:
        case "deflate":
            return zlib.compress(plain, wbits=-15)
        case "bzip2":
            return bz2.compress(plain)
        case "zstandard":
            return zstandard.compress(plain)
        case _:
            packed: bytes = pa.Codec("snappy").compress(plain, asbytes=True)
            return packed + binascii.crc32(plain).to_bytes(4, "big")


@pytest.mark.parametrize("name", ["deflate", "bzip2", "zstandard", "snappy"])
def test_blocks_of_avro_are_unpacked_within_bounds(
    name: AvroCompressionCodec, monkeypatch: pytest.MonkeyPatch
) -> None:
    codec = KNOWN_CODECS[name]
    assert codec is not None
    plain = os.urandom(300) + bytes(700)
    packed = packed_block(name, plain)
    assert codec.decompress(packed) == plain
    assert codec.decompress(codec.compress(plain)[0]) == plain
    damaged = bytearray(packed)
    for place in range(0, len(packed), 7):
        damaged[place] ^= 0x55
    for wrong in (packed[: len(packed) // 2], bytes(damaged), b"\xff" * 20):
        with pytest.raises((ValueError, OSError, zlib.error)):
            codec.decompress(wrong)
    monkeypatch.setattr(unpacking, "BYTES_MAX", 999)
    with pytest.raises(ValueError, match="more than 999 bytes"):
        codec.decompress(packed)

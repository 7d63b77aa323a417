"""Reads the metadata files of tables as JSON, whatever format version they have.

Table properties that readers would treat as their own settings are left out. Files are immutable,
so each is read once and cached; but some catalogs give a table that was created again the locations
of its predecessor, so a file is cached for the table that it was read for.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Hashable

from pyiceberg.io import FileIO

from seamline.connectors.cache import Cache
from seamline.connectors.iceberg.metadata_properties import readable_by_others
from seamline.connectors.iceberg.unpacking import gunzipped
from seamline.connectors.iceberg.virtual import Json

FILES_BYTES_MAX = 64 << 20
"""How much memory the cached files may take; a larger one is cached alone."""
_BYTES_OF_TEXT = 4
"""About what a byte of a file takes, with what it is parsed to."""
_GZIP = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True, slots=True)
class MetadataFile:
    """A metadata file.

    Attributes:
        location: Where it is.
        text: The content that other engines are given, uncompressed.
        body: The same content, parsed; must not be changed.
    """

    location: str
    text: bytes
    body: Json = dataclasses.field(compare=False)


class MetadataFiles:
    """Reads metadata files. Safe to share between threads."""

    def __init__(self) -> None:
        self._files: Cache[tuple[str, Hashable], MetadataFile] = Cache(
            FILES_BYTES_MAX, weight=lambda file: _BYTES_OF_TEXT * len(file.text)
        )

    def read(self, io: FileIO, location: str, of: Hashable) -> MetadataFile:
        """Returns the file at a location.

        Args:
            io: Opens it.
            location: The location.
            of: Distinguishes the table that it is about from others that had the location.

        Raises:
            OSError, ValueError, EOFError, zlib.error: when it cannot be read.
        """
        return self._files.get_or_make((location, of), lambda: _read(io, location))


def _read(io: FileIO, location: str) -> MetadataFile:
    with io.new_input(location).open() as stream:
        raw = stream.read()
    text = gunzipped(raw) if raw.startswith(_GZIP) else raw
    body: Json = json.loads(text)
    properties = readable_by_others(body.get("properties", {}))
    if properties != body.get("properties", {}):
        body = {**body, "properties": properties}
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    return MetadataFile(location, text, body)

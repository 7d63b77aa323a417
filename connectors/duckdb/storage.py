"""Opens files that DuckDB does not open by itself, through the table's own file access.

Any storage that PyIceberg is configured for (S3, GCS, Azure, HDFS, with any credentials) can be
read this way, without DuckDB's own extensions. The file system knows the files of one statement and
no others, which makes it a second safeguard besides DuckDB's list of allowed paths.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from typing import Any

import duckdb
from fsspec import AbstractFileSystem

from seamline.connectors.protocols.engines import EngineScan

_WILDCARDS = re.compile(r"[*?[]")


def local_path(path: str) -> str:
    """Returns an Iceberg location as DuckDB expects it: without the scheme of local files."""
    for prefix in ("file://", "file:"):
        if path.startswith(prefix):
            return path[len(prefix) :]
    return path


def is_remote(path: str) -> bool:
    """Whether a location is not a local file."""
    return "://" in local_path(path)


def as_pattern(path: str) -> str:
    """Returns a location as the pattern that matches this file only: DuckDB reads paths as globs.

    A remote location stays as it is, since `_StatementFiles` takes none for a pattern.
    """
    return path if is_remote(path) else _WILDCARDS.sub(r"[\g<0>]", path)


def attach(connection: duckdb.DuckDBPyConnection, scans: Iterable[EngineScan]) -> None:
    """Makes the remote files of the scans readable in an instance."""
    opened_by = {
        file.path: scan.file_access
        for scan in scans
        if scan.cold is not None
        for file in scan.cold.files
        if is_remote(file.path)
    }
    for scheme in sorted({path.split("://", 1)[0] for path in opened_by}):
        connection.register_filesystem(_StatementFiles(scheme, opened_by))


class _StatementFiles(AbstractFileSystem):
    """The files of one statement, by their full location.

    Args:
        scheme: What the locations start with.
        opened_by: Location to PyIceberg's `FileIO` of its table.
    """

    cachable = False  # fsspec would keep one instance for all statements

    def __init__(self, scheme: str, opened_by: Mapping[str, Any]) -> None:
        super().__init__()
        self.protocol = scheme
        self._opened_by = opened_by

    def _location(self, path: str) -> str:
        return path if "://" in path else f"{self.protocol}://{path}"

    def _input(self, path: str) -> Any:
        location = self._location(path)
        access = self._opened_by.get(location)
        if access is None:
            raise FileNotFoundError(location)
        return access.new_input(location)

    def open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        """Opens the file for reading."""
        if mode != "rb":
            raise PermissionError(path)
        return self._input(path).open(seekable=True)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Returns name and size, in fsspec's form."""
        return {"name": path, "size": len(self._input(path)), "type": "file"}

    def exists(self, path: str, **_: Any) -> bool:
        """Whether the path is one of the statement's files."""
        return self._location(path) in self._opened_by

    def glob(self, path: str, **_: Any) -> list[str]:
        """Returns the file itself: what gets here is the path of one, whatever it has in it."""
        return [path] if self.exists(path) else []

    def modified(self, path: str) -> Any:
        """Returns a constant time: data files never change."""
        self._input(path)
        return datetime.datetime.fromtimestamp(0, datetime.UTC)

"""A Delta table's log: its newest commits, each read once, and the time of each.

A commit is a file that never changes, so what was read of it stays valid while the newest known
commit is still the same file. A table that was removed and recreated starts over.

A version's time follows Delta's protocol: the time in the commit itself if the table records it,
otherwise that of the commit's file. Each time is later than the one before it.
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow.fs as fs

from seamline.errors import COLD_FILE_INVALID, SeamlineError
from seamline.seam.boundary import REWRITE

HISTORY_MAX = 1000
"""How many commits of a table are read and kept; older versions are not known."""
_READERS = 8
_FOLDER = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")

APPEND, OVERWRITE, DELETE = "append", "overwrite", "delete"


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """One version, as its commit describes it.

    Attributes:
        version: Its number.
        timestamp_ms: When it was committed.
        operation: What it did to rows: `append`, `overwrite`, `delete`, or `replace` for none.
        name: Its writer's name for it, such as `OPTIMIZE`; empty when the commit does not say.
        transactions: The `txn` actions: how far each application says it has got.
        rows_added: Rows of the files that it adds; None when the commit does not say.
        schema: The schema's text, if the commit sets one.
        file: Time and size of its file, which distinguish it from another file of the same name.
    """

    version: int
    timestamp_ms: int
    operation: str
    name: str
    transactions: Mapping[str, int] = dataclasses.field(hash=False)
    rows_added: int | None
    schema: str | None
    file: tuple[int, int]


History = tuple[Commit, ...]
"""Successive commits, oldest first."""


class DeltaLog:
    """The log of one table. Safe to share between threads."""

    def __init__(self, files: fs.FileSystem) -> None:
        self._files = files

    def history(self, earlier: History = ()) -> History:
        """Returns the newest commits; empty if there is no log.

        Args:
            earlier: The history as of an earlier call: only newer commits are read.

        Raises:
            OSError: The log cannot be read.
            SeamlineError: COLD_FILE_INVALID.
        """
        commits = list(earlier) if earlier and self._is_there(earlier[-1]) else self._listed()
        while commits and (commit := self._read(commits[-1].version + 1)) is not None:
            commits.append(commit)
        return tuple(_in_order(commits[-HISTORY_MAX:]))

    def _is_there(self, commit: Commit) -> bool:
        (info,) = self._files.get_file_info([path_of(commit.version)])
        return _file(info) == commit.file

    def _listed(self) -> list[Commit]:
        selector = fs.FileSelector(_FOLDER, allow_not_found=True)
        names = (info.base_name for info in self._files.get_file_info(selector))
        versions = sorted((int(m[1]) for m in map(_COMMIT.fullmatch, names) if m), reverse=True)
        kept = [v for back, v in enumerate(versions[:HISTORY_MAX]) if v == versions[0] - back]
        with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
            read = pool.map(self._read, reversed(kept))
            return _unbroken(list(read))

    def _read(self, version: int) -> Commit | None:
        """Returns a commit, or None if there is none."""
        (info,) = self._files.get_file_info([path_of(version)])
        if info.type != fs.FileType.File:
            return None
        try:
            with self._files.open_input_stream(info.path) as stream:
                text = stream.read()
        except FileNotFoundError:
            return None
        try:
            actions = [json.loads(line) for line in text.splitlines() if line.strip()]
            return _commit(version, actions, _file(info))
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise SeamlineError(
                COLD_FILE_INVALID, f"{info.path} is not a Delta commit: {error!r}"
            ) from error


def path_of(version: int) -> str:
    """Returns the path of a commit in its table's folder."""
    return f"{_FOLDER}/{version:020}.json"


def _file(info: fs.FileInfo) -> tuple[int, int]:
    return (info.mtime_ns or 0, info.size or 0)


def _unbroken(read: Sequence[Commit | None]) -> list[Commit]:
    """Returns the newest commits, back to the newest one that has disappeared meanwhile."""
    commits: list[Commit] = []
    for commit in read:
        commits = [] if commit is None else [*commits, commit]
    return commits


def _in_order(commits: Sequence[Commit]) -> Iterator[Commit]:
    """Yields the commits with times that are each later than the one before."""
    last_ms = -1
    for commit in commits:
        last_ms = max(commit.timestamp_ms, last_ms + 1)
        is_late = last_ms != commit.timestamp_ms
        yield dataclasses.replace(commit, timestamp_ms=last_ms) if is_late else commit


def _commit(version: int, actions: Sequence[Mapping[str, Any]], file: tuple[int, int]) -> Commit:
    info: Mapping[str, Any] = {}
    schema, transactions = None, {}
    added: list[Mapping[str, Any]] = []
    has_added = has_removed = False
    for action in actions:
        ((kind, body),) = action.items()
        match kind:
            case "commitInfo":
                info = body
            case "metaData":
                schema = body["schemaString"]
            case "txn":
                transactions[str(body["appId"])] = int(body["version"])
            case "add" if body.get("dataChange", True):
                has_added = True
                added.append(body)
            case "remove" if body.get("dataChange", True):
                has_removed = True
    operation = {
        (True, False): APPEND,
        (True, True): OVERWRITE,
        (False, True): DELETE,
        (False, False): REWRITE,
    }[has_added, has_removed]
    return Commit(
        version=version,
        timestamp_ms=int(info.get("inCommitTimestamp") or file[0] // 1_000_000),
        operation=operation,
        name=str(info.get("operation") or ""),
        transactions=transactions,
        rows_added=_rows(added),
        schema=schema,
        file=file,
    )


def _rows(added: Sequence[Mapping[str, Any]]) -> int | None:
    """Returns the rows of added files, by their statistics; None if one has no row count."""
    row_counts = [json.loads(file.get("stats") or "{}").get("numRecords") for file in added]
    return None if None in row_counts else sum(row_counts)

"""A Delta table's log: its newest commits, each read once, and the time of each.

A commit is a file that never changes, so what was read of it stays true for as long as the newest
one that is known is still the same file: a table that was removed and recreated starts over.
A version's time is what Delta's protocol says: the one that the commit itself holds where the table
keeps these, else that of its file; and each is later than the one before it.
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
"""Commits that are looked at when a table is first read; older versions are not known."""
_READERS = 8
_FOLDER = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")

APPEND, OVERWRITE, DELETE = "append", "overwrite", "delete"


@dataclasses.dataclass(frozen=True, slots=True)
class Commit:
    """One version, as its commit says it.

    Attributes:
        version: Its number.
        timestamp_ms: When it was committed.
        operation: What became of rows: `append`, `overwrite`, `delete`, or `replace` for none.
        name: What its writer calls it, such as `OPTIMIZE`; empty where it does not say.
        transactions: The `txn` actions: how far each application says that it is.
        rows_added: Rows of the files that it adds; None where it does not say.
        schema: The schema's text, where it sets one.
        file: What tells its file from another of the same name: time and size.
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
    """The log of one table. Safe to share between threads.

    Args:
        files: The table's folder.
    """

    def __init__(self, files: fs.FileSystem) -> None:
        self._files = files

    def history(self, known: History = ()) -> History:
        """The newest commits; empty where there is no log.

        Args:
            known: What it was before: only what has come since is read.

        Raises:
            OSError: The log cannot be read.
            SeamlineError: COLD_FILE_INVALID.
        """
        found = list(known) if known and self._is_there(known[-1]) else self._listed()
        while found and (commit := self._read(found[-1].version + 1)) is not None:
            found.append(commit)
        return tuple(_in_order(found[-HISTORY_MAX:]))

    def _is_there(self, commit: Commit) -> bool:
        (info,) = self._files.get_file_info([path_of(commit.version)])
        return _file(info) == commit.file

    def _listed(self) -> list[Commit]:
        selector = fs.FileSelector(_FOLDER, allow_not_found=True)
        names = (info.base_name for info in self._files.get_file_info(selector))
        versions = sorted((int(m[1]) for m in map(_COMMIT.fullmatch, names) if m), reverse=True)
        wanted = [v for back, v in enumerate(versions[:HISTORY_MAX]) if v == versions[0] - back]
        with concurrent.futures.ThreadPoolExecutor(_READERS) as pool:
            read = pool.map(self._read, reversed(wanted))
            return _unbroken(list(read))

    def _read(self, version: int) -> Commit | None:
        """A commit; None where there is none."""
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
    """Where a commit lies, in its table's folder."""
    return f"{_FOLDER}/{version:020}.json"


def _file(info: fs.FileInfo) -> tuple[int, int]:
    return (info.mtime_ns or 0, info.size or 0)


def _unbroken(read: Sequence[Commit | None]) -> list[Commit]:
    """The newest of them, as far back as none has gone meanwhile."""
    found: list[Commit] = []
    for commit in read:
        found = [] if commit is None else [*found, commit]
    return found


def _in_order(commits: Sequence[Commit]) -> Iterator[Commit]:
    """Commits, each of which is later than the one before it."""
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
    """Rows of added files, by their statistics; None where one has none."""
    found = [json.loads(file.get("stats") or "{}").get("numRecords") for file in added]
    return None if None in found else sum(found)

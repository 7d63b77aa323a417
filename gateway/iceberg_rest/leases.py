"""Leases: how long files are kept for readers that may still come back for them.

A lease names its purpose, the files, and how long they are kept. It is recorded before the first
file is written, so that no file is left behind unknown. It is renewed whenever somebody asks for
the files. The records are small JSON files in a folder of the gateway.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from seamline.connectors.files import named_write_errors, private_folder
from seamline.errors import STORAGE_UNAVAILABLE

_LOG = logging.getLogger("seamline.leases")

_WRITABLE = "The gateway must be able to write into its state directory."
_VERSION = 3
_RENEWED_AT = 0.1
"""A renewal is recorded once it extends the lease by this fraction."""


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """One lease.

    Attributes:
        lease_id: Its name, unique and usable as a file name.
        kind: What it is for.
        until_s: When it ends, in seconds since the epoch.
        paths: Locations of the files.
        body: What else must be remembered about them; JSON.
    """

    lease_id: str
    kind: str
    until_s: float
    paths: tuple[str, ...]
    body: Mapping[str, Any] = dataclasses.field(hash=False)


class Leases:
    """The leases of one gateway. Safe to share between threads.

    Args:
        directory: Where they are recorded.
        seconds: How long a lease lasts after the files were last asked for.
        clock: Returns seconds since the epoch.
    """

    def __init__(
        self, directory: pathlib.Path, seconds: float, clock: Callable[[], float] = time.time
    ) -> None:
        self._directory = directory
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        private_folder(self._directory)
        self._written: dict[str, float] = {}
        self._leases = {lease.lease_id: lease for lease in self._read()}

    def hold(self, lease_id: str, kind: str, paths: Iterable[str], body: Mapping[str, Any]) -> None:
        """Begins a lease, or begins it again with other files."""
        lease = Lease(lease_id, kind, self._clock() + self._seconds, tuple(paths), body)
        with self._lock:
            self._leases[lease_id] = lease
        self._write(lease)

    def renew(self, lease_ids: Iterable[str]) -> frozenset[str]:
        """Extends leases.

        Returns:
            The ids of leases that have ended: their files are being removed, or are gone.
        """
        until_s = self._clock() + self._seconds
        due = []
        gone = set()
        with self._lock:
            for lease_id in lease_ids:
                lease = self._leases.get(lease_id)
                if lease is None or lease.until_s <= self._clock():
                    gone.add(lease_id)
                    continue
                lease = dataclasses.replace(lease, until_s=until_s)
                self._leases[lease_id] = lease
                if until_s - self._written.get(lease_id, 0) > self._seconds * _RENEWED_AT:
                    due.append(lease)
        for lease in due:
            self._write(lease)
        return frozenset(gone)

    def release(self, lease_id: str) -> None:
        """Ends a lease now."""
        with self._lock:
            lease = self._leases.get(lease_id)
            if lease is not None:
                self._leases[lease_id] = dataclasses.replace(lease, until_s=0.0)

    def get(self, lease_id: str) -> Lease | None:
        """Returns a lease, or None if it has ended or never began."""
        with self._lock:
            lease = self._leases.get(lease_id)
        return lease if lease is not None and lease.until_s > self._clock() else None

    def held(self, kind: str) -> list[Lease]:
        """Returns the leases of a kind that have not ended."""
        now = self._clock()
        with self._lock:
            return [
                lease
                for lease in self._leases.values()
                if lease.kind == kind and lease.until_s > now
            ]

    def expire(self) -> list[Lease]:
        """Takes out and returns leases that have ended; their files are the caller's to remove."""
        now = self._clock()
        with self._lock:
            ended = [lease for lease in self._leases.values() if lease.until_s <= now]
            for lease in ended:
                del self._leases[lease.lease_id]
        return ended

    def put_back(self, lease: Lease) -> None:
        """Puts back an expired lease whose files could not be removed, for the next round."""
        with self._lock:
            self._leases.setdefault(lease.lease_id, lease)

    def forget(self, lease: Lease) -> None:
        """Removes the record of an expired lease, once its files are gone."""
        self._written.pop(lease.lease_id, None)
        self._path(lease.lease_id).unlink(missing_ok=True)

    def _write(self, lease: Lease) -> None:
        path = self._path(lease.lease_id)
        new = path.with_suffix(f".{threading.get_ident()}.new")
        record = {**dataclasses.asdict(lease), "body": lease.body, "version": _VERSION}
        with named_write_errors(self._directory, STORAGE_UNAVAILABLE, hint=_WRITABLE):
            new.write_text(json.dumps(record))
            new.replace(path)
        self._written[lease.lease_id] = lease.until_s

    def _read(self) -> Iterable[Lease]:
        for path in self._directory.glob("*.json"):
            try:
                record = json.loads(path.read_text())
                version = record.pop("version", None)
                lease = Lease(**{**record, "paths": tuple(record["paths"])})
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                _LOG.warning("%s is not a record of a lease, and is left alone: %r", path, error)
                continue
            if version != _VERSION:  # its files must still be removed
                lease = dataclasses.replace(lease, kind="", body={})
            yield lease

    def _path(self, lease_id: str) -> pathlib.Path:
        return self._directory / f"{lease_id}.json"

"""A statement on the gateway: submits it, waits, cancels, fetches its chunks and releases it.

The response to the submission comes soon, whether the statement has finished or not: until then its
id is unknown and it cannot be canceled. An earlier cancel, from Ctrl-C or from another thread, is
remembered and sent then.
"""

from __future__ import annotations

import base64
import collections
import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from seamline.dbapi.errors import Error, as_client_error
from seamline.dbapi.transport import Transport
from seamline.errors import SeamlineError

SUBMIT_WAIT_S = 0.2
"""How long a submission waits for the result, which then comes with the response."""
WAIT_S = 20.0
PROGRESS_S = 1.0
_AHEAD = 2
"""Chunks to fetch ahead while an earlier one is read; each is a few megabytes."""
AHEAD_BYTES = 64 << 20
"""Bytes of chunks to fetch while the statement is still running."""
_PAUSE_S_MIN = 0.05
_PAUSE_S_MAX = 1.0
_UNDERWAY = frozenset({"PENDING", "RUNNING"})
_PATH = "/api/v1/statements"
_THERE = 200
"""Status of a response with a chunk; a chunk that has not been written yet has another."""

Progress = Callable[[Mapping[str, Any]], None]


class RemoteStatement:
    """One statement. It may be canceled from any thread.

    Attributes:
        manifest: The gateway's latest description of it; empty before its first response.
    """

    def __init__(self, transport: Transport, compression: str | None = None) -> None:
        self.manifest: dict[str, Any] = {}
        self._transport = transport
        self._lock = threading.Lock()
        self._cancel_asked = False
        self._compression = compression
        self._early: EarlyChunks | None = None

    @property
    def statement_id(self) -> str | None:
        """The gateway's id of the statement."""
        return self.manifest.get("statement_id")

    @property
    def _path(self) -> str:
        return f"{_PATH}/{self.statement_id}"

    def run(self, body: Mapping[str, Any], progress: Progress | None) -> None:
        """Submits the statement and waits until it has ended; Ctrl-C while waiting cancels it.

        Args:
            body: The request.
            progress: Called with the manifest while it runs.

        Raises:
            Error: the gateway's named error as a DB-API exception.
        """
        takes_arrow = body.get("format") == "ARROW_STREAM"
        try:
            self._submit({**body, "wait_timeout": SUBMIT_WAIT_S, "wait_for": _what(takes_arrow)})
            self._wait(progress, takes_arrow)
        except KeyboardInterrupt:
            self.cancel()
            raise
        finally:
            if self._early is not None:
                self._early.stop()

    def cancel(self) -> None:
        """Asks the gateway to end the statement; does nothing when it has ended."""
        with self._lock:
            self._cancel_asked = True
            if self.statement_id is None:
                return
        self._transport.json("POST", f"{self._path}/cancel", {})

    def arrow_chunks(self) -> Iterator[bytes]:
        """Yields the chunks of the result as Arrow IPC streams, fetching a few of them ahead."""
        count, inline = self.manifest["chunks"]["count"], self._inline("arrow")
        fetched = 0
        if inline is not None:
            fetched = 1
            yield base64.b64decode(inline)
        early, self._early = self._early, None
        if early is not None:
            for chunk in early.take():
                fetched += 1
                yield chunk
        paths = [self._chunk_path(index) for index in range(fetched, count)]
        if len(paths) <= 1:
            yield from (self._transport.bytes(path)[1] for path in paths)
            return
        with concurrent.futures.ThreadPoolExecutor(_AHEAD, "seamline-fetch") as pool:
            waiting: collections.deque[concurrent.futures.Future[bytes]] = collections.deque()
            for path in paths:
                waiting.append(pool.submit(lambda path: self._transport.bytes(path)[1], path))
                if len(waiting) > _AHEAD:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()

    def json_chunks(self) -> Iterator[list[list[Any]]]:
        """Yields the chunks of the result as rows of JSON values."""
        for index in range(self.manifest["chunks"]["count"]):
            rows = self._inline("data") if index == 0 else None
            if rows is None:
                path = f"{self._path}/chunks/{index}?format=JSON_ARRAY"
                rows = self._transport.json("GET", path, key="data")["data"]
            yield rows

    def release(self) -> None:
        """Tells the gateway that a result is no longer needed, if the gateway still has chunks."""
        if self.statement_id and self.manifest.get("chunks", {}).get("count", 0) > 1:
            with contextlib.suppress(Error):  # a gateway that is gone has nothing to release
                self._transport.json("DELETE", self._path)

    def _chunk_path(self, index: int) -> str:
        compressed = f"?compression={self._compression}" if self._compression else ""
        return f"{self._path}/chunks/{index}{compressed}"

    def _inline(self, form: str) -> Any:
        return (self.manifest.get("inline") or {}).get(form)

    def _submit(self, body: Mapping[str, Any]) -> None:
        """Submits on a separate thread, so that Ctrl-C cannot lose the response with the id."""
        failures: list[BaseException] = []
        answered = threading.Event()

        def send() -> None:
            try:
                answer = self._transport.json("POST", _PATH, body, key="state")
                with self._lock:
                    self.manifest = answer
                if self._cancel_asked:
                    self.cancel()
            except BaseException as error:  # noqa: BLE001 - raised again in the waiting thread
                failures.append(error)
            finally:
                answered.set()

        threading.Thread(target=send, name="seamline-submit", daemon=True).start()
        try:
            answered.wait()  # not `join`, which treats a thread as ended after an interrupt
        except KeyboardInterrupt:
            answered.wait(PROGRESS_S)
            raise
        if failures:
            raise failures[0]

    def _wait(self, progress: Progress | None, takes_arrow: bool) -> None:
        wait_s = PROGRESS_S if progress is not None else WAIT_S
        pause_s = _PAUSE_S_MIN
        while self.manifest["state"] in _UNDERWAY:
            if progress is not None:
                progress(self.manifest)
            if takes_arrow and self._early is None and _has_rows(self.manifest):
                self._early = EarlyChunks(self._transport, self._chunk_path)
            for_rows = takes_arrow and self._early is None
            asked_at = time.monotonic()
            path = f"{self._path}?wait={wait_s}&wait_for={_what(for_rows)}"
            self.manifest = self._transport.json("GET", path, key="state")
            came_early = time.monotonic() - asked_at < wait_s / 2
            is_wanted = for_rows and _has_rows(self.manifest)
            if self.manifest["state"] in _UNDERWAY and came_early and not is_wanted:
                time.sleep(pause_s)  # an early answer means too many clients wait there already
                pause_s = min(2 * pause_s, _PAUSE_S_MAX)
        if "error" in self.manifest:
            raise as_client_error(SeamlineError.from_json(self.manifest["error"]))


def _what(for_rows: bool) -> str:
    return "ROWS" if for_rows else "END"


def _has_rows(manifest: Mapping[str, Any]) -> bool:
    return bool(manifest.get("chunks", {}).get("count"))


class EarlyChunks:
    """The first chunks of a result, fetched in the background while the statement is running."""

    def __init__(self, transport: Transport, path_of: Callable[[int], str]) -> None:
        self._transport = transport
        self._path_of = path_of
        self._stopped = threading.Event()
        self._chunks: collections.deque[bytes] = collections.deque()
        self._thread = threading.Thread(target=self._fetch, name="seamline-early", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Fetches no more than the chunk that is on its way, which may be the first."""
        self._stopped.set()

    def take(self) -> Iterator[bytes]:
        """Yields the chunks in order, and forgets them. Call it once the statement has ended."""
        self.stop()
        self._thread.join()
        while self._chunks:
            yield self._chunks.popleft()

    def _fetch(self) -> None:
        size = 0
        with contextlib.suppress(Error):  # why the statement failed is in its manifest
            while size < AHEAD_BYTES:
                path = self._path_of(len(self._chunks))
                status, chunk, headers = self._transport.bytes(path)
                if status == _THERE:
                    self._chunks.append(chunk)
                    size += len(chunk)
                else:
                    self._stopped.wait(_PAUSE_S_MIN)  # too many clients may wait there already
                is_last = headers.get("Seamline-Last-Chunk") == "true"
                if is_last or self._stopped.is_set():
                    return

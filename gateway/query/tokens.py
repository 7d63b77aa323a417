"""Tokens: the seams of a statement, signed, so that its rows can be read again.

A session passes on tokens of what it has seen, and a client passes on tokens of what it has
written, so that later reads do not fall behind them.

A token is compact and versioned, belongs to the principal it was issued to, and expires. Nobody can
forge one. Where access rules may hide rows, nobody can read one either, as offsets count rows.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import itertools
import json
import pathlib
import secrets
import time
import zlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import itsdangerous
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from seamline.connectors.cache import Cache
from seamline.connectors.files import kept_text
from seamline.errors import INVALID_TOKEN, TOKEN_EXPIRED, SeamlineError
from seamline.gateway import names
from seamline.seam.gaps import Gap
from seamline.seam.offsets import Offsets
from seamline.seam.seam import ColdPart, LogPart, Seam

_VERSION = 2
_SALT = "seamline-token"
_SEALED = "seamline-sealed"
_NONCE = 12
"""Bytes of the number that no two encrypted texts share."""
_BLOCK = 256
"""Encrypted texts are as long as a multiple of this."""
_SESSIONS_LENGTH_MAX = 1 << 20
"""Length of all session tokens together whose seams are remembered."""
_WRITE_PREFIX = "w1."
_OWN_WRITE_PREFIX = "w2."
_SEPARATOR = ","
"""Separates tokens that are passed on as one string; no token contains it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Write:
    """A write that a statement must see.

    Attributes:
        table: The table it went to, as the client calls it; None for the statement's only table.
        end: Per partition, the offset after the acknowledged one.
        is_own: Whether a gateway wrote it, and made its token.
    """

    table: str | None
    end: Offsets
    is_own: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class After:
    """What a statement must not fall behind.

    Attributes:
        seen: The seams that sessions have read; each session adds its own.
        writes: The writes that were acknowledged.
    """

    seen: tuple[Seam, ...] = ()
    writes: tuple[Write, ...] = ()


NOTHING = After()


class _Session(NamedTuple):
    """The seams of a session's token, and the length of its text."""

    seams: tuple[Seam, ...]
    length: int


class TokenSigner:
    """Makes and reads tokens.

    Args:
        secret: The secret that signs them.
        age_seconds_max: The age in seconds past which tokens are refused.
        is_secret: Whether what tokens hold is kept from those who have them.
    """

    def __init__(self, secret: str, age_seconds_max: int, *, is_secret: bool = False) -> None:
        self._serializer = itsdangerous.URLSafeTimedSerializer(secret, salt=_SALT)
        self._age_seconds_max = age_seconds_max
        self._cipher = AESGCM(hashlib.sha256(f"{_SEALED}{secret}".encode()).digest())
        self._is_secret = is_secret
        self._last: tuple[tuple[str, int, list[Any]], str] | None = None
        """The last token, and for whom, in which second and for which seams it was signed: most
        statements need two that are the same."""
        self._sessions: Cache[tuple[str, str], _Session] = Cache(
            _SESSIONS_LENGTH_MAX, weight=lambda session: session.length
        )

    def sign(self, seams: Sequence[Seam], principal: str) -> str:
        """Returns a token for some seams, issued to a principal."""
        body = [encode(seam) for seam in seams]
        signed, last = (principal, int(time.time()), body), self._last
        if last is not None and last[0] == signed:
            return last[1]
        token = str(self._serializer.dumps([_VERSION, principal, self._kept(body)]))
        self._last = signed, token
        return token

    def write_text(self, write: Write) -> str:
        """Returns the token of a write; a client can make one that is not a gateway's own."""
        if not (write.is_own and self._is_secret):
            return write_text(write)
        return _OWN_WRITE_PREFIX + self._serializer.dumps(self._kept(_write_body(write)))

    def session_text(self, token: str, writes: Sequence[Write], seen: Sequence[Seam]) -> str:
        """Returns a session's token, joined with the writes that no read has shown yet.

        Args:
            token: The session's.
            writes: Writes to tables that the session must not fall behind.
            seen: The seams that the statement has read, and waited for.
        """
        open_ = [w for w in writes if w.table is not None and not any(_shows(s, w) for s in seen)]
        return _SEPARATOR.join((token, *map(self.write_text, open_)))

    def after(self, tokens: Sequence[str], principal: str) -> After:
        """Combines session tokens and write tokens; a session token may be of any age.

        Raises:
            SeamlineError: INVALID_TOKEN.
        """
        seen: dict[Seam, None] = {}
        writes = []
        for token in itertools.chain.from_iterable(text.split(_SEPARATOR) for text in tokens):
            if token.startswith(_WRITE_PREFIX):
                writes.append(_write(token))
            elif token.startswith(_OWN_WRITE_PREFIX):
                writes.append(self._own_write(token))
            else:
                seen.update(dict.fromkeys(self._seen(token, principal)))
        return After(tuple(seen), tuple(writes))

    def read(self, token: str, principal: str) -> tuple[Seam, ...]:
        """Returns the seams of a token.

        Raises:
            SeamlineError: INVALID_TOKEN for one that is forged, malformed, of another version or of
                another principal; TOKEN_EXPIRED for one that is too old.
        """
        return self._read(token, principal, self._age_seconds_max)

    def _seen(self, token: str, principal: str) -> tuple[Seam, ...]:
        """Returns the seams of a session token, which clients send again and again."""
        session = self._sessions.get((token, principal))
        if session is None:
            session = _Session(self._read(token, principal, None), len(token))
            self._sessions.put((token, principal), session)
        return session.seams

    def _read(self, token: str, principal: str, age_seconds_max: int | None) -> tuple[Seam, ...]:
        try:
            version, owner, body = self._serializer.loads(token, max_age=age_seconds_max)
            if version != _VERSION:
                raise SeamlineError(
                    INVALID_TOKEN, f"the token has the unsupported version {version}"
                )
            seams = tuple(decode(entry) for entry in self._told(body))
        except itsdangerous.SignatureExpired as error:
            raise SeamlineError(
                TOKEN_EXPIRED, f"the token is older than {self._age_seconds_max} s"
            ) from error
        except (itsdangerous.BadData, ValueError, TypeError, AttributeError) as error:
            raise SeamlineError(
                INVALID_TOKEN, "the token was not issued by this gateway, or was altered"
            ) from error
        if owner != principal:
            raise SeamlineError(INVALID_TOKEN, "the token was issued to someone else")
        return seams

    def _own_write(self, token: str) -> Write:
        try:
            text = token.removeprefix(_OWN_WRITE_PREFIX)
            body = self._told(self._serializer.loads(text))
            return dataclasses.replace(_write_of(body), is_own=True)
        except (itsdangerous.BadData, ValueError, TypeError, AttributeError, KeyError) as error:
            raise SeamlineError(
                INVALID_TOKEN, "the write token was not issued by this gateway, or was altered"
            ) from error

    def _kept(self, body: Any) -> Any:
        """Returns what a token holds, encrypted if it is secret; its length says little then."""
        if not self._is_secret:
            return body
        text = zlib.compress(json.dumps(body, separators=(",", ":")).encode())
        text += bytes(-len(text) % _BLOCK)
        nonce = secrets.token_bytes(_NONCE)
        return base64.b64encode(nonce + self._cipher.encrypt(nonce, text, None)).decode()

    def _told(self, body: Any) -> Any:
        """Inverts `_kept`."""
        if not isinstance(body, str):
            return body
        kept = base64.b64decode(body)
        try:
            text = self._cipher.decrypt(kept[:_NONCE], kept[_NONCE:], None)
        except InvalidTag as error:
            raise ValueError("another secret") from error
        return json.loads(zlib.decompressobj().decompress(text))


def encode(seam: Seam) -> list[Any]:
    """Encodes a seam for a token: enough to pin it again, and to notice that history changed."""
    gaps = [[gap.partition, gap.start, gap.end_exclusive, gap.offsets] for gap in seam.log.gaps]
    return [
        list(seam.table),
        seam.table_uuid,
        seam.cold.snapshot_id,
        seam.schema_id,
        seam.log.topic_id,
        # as columns, and as differences, which are mostly small: this keeps a token compact
        list(seam.end),
        [seam.boundary.get(p, 0) for p in seam.end],
        [end - seam.boundary.get(p, 0) for p, end in seam.end.items()],
        [seam.log.end_epochs.get(p, -1) for p in seam.end],
        seam.cold.foreign_change_id,
        seam.cold.sequence_number,
        seam.log.format,
        seam.log.on_error,
        *([gaps] if gaps else ()),
    ]


def decode(entry: Any) -> Seam:
    """Inverts `encode`; what a token does not keep is left out.

    Raises:
        ValueError, TypeError, AttributeError: when the entry is not a seam.
    """
    gaps: list[Any] = []
    if isinstance(entry[-1], list):
        *entry, gaps = entry
    table, uuid, snapshot_id, schema_id, topic_id, *columns = entry[:-4]
    foreign_change_id, sequence, format_, on_error = entry[-4:]
    offsets = [tuple(map(int, row)) for row in zip(*columns, strict=True)]
    log = LogPart(
        topic_id=topic_id,
        end_epochs=Offsets({p: epoch for p, _, _, epoch in offsets if epoch >= 0}),
        gaps=tuple(Gap(topic_id, int(p), int(a), int(b), int(n)) for p, a, b, n in gaps),
        format=format_,
        on_error=on_error,
    )
    return Seam(
        table=tuple(table),
        table_uuid=uuid,
        schema_id=schema_id,
        cold=ColdPart(snapshot_id, int(sequence), foreign_change_id),
        log=log,
        boundary=Offsets({p: start for p, start, _, _ in offsets}),
        end=Offsets({p: start + count for p, start, count, _ in offsets}),
    )


def _write(token: str) -> Write:
    """Returns the write that a client's token represents.

    The token is not signed: it can only make its owner wait.
    """
    try:
        text = token.removeprefix(_WRITE_PREFIX)
        return _write_of(json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SeamlineError(
            INVALID_TOKEN,
            "the write token is malformed",
            hint="Create it with seamline.write_token({partition: offset}).",
        ) from error


def _write_of(body: Any) -> Write:
    table, last = body["table"], Offsets.from_json(body["offsets"])
    return Write(
        None if table is None else str(table),
        Offsets({p: offset + 1 for p, offset in last.items()}),
    )


def _write_body(write: Write) -> dict[str, Any]:
    last = {str(p): end - 1 for p, end in write.end.items()}
    return {"table": write.table, "offsets": last}


def write_text(write: Write) -> str:
    """Returns the token of a write, as `seamline.write_token` makes it."""
    text = json.dumps(_write_body(write), separators=(",", ":")).encode()
    return _WRITE_PREFIX + base64.urlsafe_b64encode(text).decode().rstrip("=")


def forgotten(after: After, table: tuple[str, ...]) -> After:
    """Returns what a session must not fall behind once it has dropped a table.

    Another table may take its name.

    Args:
        after: What the session must not have fallen behind before.
        table: Full name of the table.
    """
    return After(
        tuple(seam for seam in after.seen if _lower(seam.table) != _lower(table)),
        tuple(w for w in after.writes if w.table is None or not _is_called(table, w.table)),
    )


def _shows(seam: Seam, write: Write) -> bool:
    return bool(seam.log.topic) and _is_called(seam.table, write.table or "")


def _is_called(table: tuple[str, ...], name: str) -> bool:
    """Whether a name, which may lack its leading parts, is that of a table."""
    parts = _lower(names.split(name))
    return _lower(table)[-len(parts) :] == parts


def _lower(name: Sequence[str]) -> tuple[str, ...]:
    return tuple(part.lower() for part in name)


def kept_secret(path: pathlib.Path) -> str:
    """Returns the secret in a file, created on the first call and readable by the owner only."""
    return kept_text(path, lambda: secrets.token_urlsafe(32))

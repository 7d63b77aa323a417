"""Identifies callers by user and password, with a file of hashes as in htpasswd and Trino.

    ann:$2y$10$…
    bob:$argon2id$v=19$m=65536,t=3,p=4$…

The file is watched. A hash is slow to check on purpose, so a correct password is remembered for a
while, as a digest under a key that only this process has. An unknown user takes as long as a known
one.
"""

from __future__ import annotations

import hashlib
import hmac
import pathlib
import re
import secrets
import threading
from collections.abc import Mapping

import argon2
import bcrypt

from seamline.connectors.cache import Cache
from seamline.connectors.machine import cores
from seamline.errors import (
    INVALID_CONFIG,
    RETRY_AFTER,
    TOO_MANY_LOGINS,
    UNAUTHENTICATED,
    SeamlineError,
    text_of_file,
)
from seamline.gateway.access.identity import PASSWORD, Identity
from seamline.gateway.access.logins import FailedLogins
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.watched import Watched

_REMEMBERED_MAX = 4096
_REMEMBERED_S = 300.0
_WAIT_S_MAX = 5.0
_PASSWORD_BYTES_MAX = 1024
_BCRYPT_BYTES_MAX = 72
_BCRYPT = re.compile(r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}")
_ID_DIGITS = 12


class Passwords:
    """Verifies passwords. Safe to share between threads.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, file: pathlib.Path, failed: FailedLogins) -> None:
        self._hashes = Watched([file], lambda: _read(file), "passwords")
        self._failed = failed
        self._key = secrets.token_bytes(32)
        self._good: Cache[bytes, bool] = Cache(_REMEMBERED_MAX, ttl_s=_REMEMBERED_S)
        self._checking = threading.BoundedSemaphore(cores())

    def identify(self, user: str, password: str, address: str) -> Identity:
        """Returns the identity of a user with this password.

        Raises:
            SeamlineError: UNAUTHENTICATED, the same for an unknown user and a wrong password;
                TOO_MANY_LOGINS, without looking at the password.
        """
        hashes = self._hashes.get()
        secret = password.encode()
        hashed = hashes.get(user) or self._of_nobody(user, hashes)
        digest = self._digest(user, hashed, secret)
        if self._good.get(digest) is None:
            self._failed.check(address, user)
            self._check(user, hashed, digest, secret, address, is_known=user in hashes)
        return _identity(user, hashed)

    def again(self, identity: Identity) -> Identity | None:
        """Returns the identity of a caller identified earlier; None if the password has changed."""
        hashed = self._hashes.get().get(identity.principal.name)
        current = None if hashed is None else _identity(identity.principal.name, hashed)
        return (
            current if current is not None and current.credential == identity.credential else None
        )

    def _check(
        self, user: str, hashed: str, digest: bytes, secret: bytes, address: str, *, is_known: bool
    ) -> None:
        if not self._checking.acquire(timeout=_WAIT_S_MAX):
            raise SeamlineError(
                TOO_MANY_LOGINS,
                "many passwords are already being checked",
                details={RETRY_AFTER: 1},
            )
        try:
            if self._good.get(digest) is not None:  # by another request at the same moment
                return
            self._failed.check(address, user)
            if not _matches(secret, hashed) or not is_known:
                self._failed.count_user(address, user)
                raise SeamlineError(UNAUTHENTICATED, "wrong user or password")
        finally:
            self._checking.release()
        self._failed.succeeded(address, user)
        self._good.put(digest, True)

    def _of_nobody(self, user: str, hashes: Mapping[str, str]) -> str:
        """Returns a hash for an unknown user, always the same one.

        It costs as much to check as that of a known user.
        """
        number = int.from_bytes(self._digest(user, "", b"")[:8], "big")
        return list(hashes.values())[number % len(hashes)]

    def _digest(self, user: str, hashed: str, secret: bytes) -> bytes:
        parts = b"".join(
            len(part).to_bytes(4, "big") + part for part in (user.encode(), hashed.encode(), secret)
        )
        return hmac.digest(self._key, parts, "sha256")


def _identity(user: str, hashed: str) -> Identity:
    digest = hashlib.sha256(hashed.encode()).hexdigest()
    return Identity(Principal(user), PASSWORD, digest[:_ID_DIGITS])


def _matches(secret: bytes, hashed: str) -> bool:
    if len(secret) > _PASSWORD_BYTES_MAX:
        secret = b""  # takes as long, and is nobody's password
    if hashed.startswith("$2"):
        return bcrypt.checkpw(secret[:_BCRYPT_BYTES_MAX], hashed.encode())
    try:
        return argon2.PasswordHasher().verify(hashed, secret)
    except argon2.exceptions.VerificationError:
        return False


def _read(file: pathlib.Path) -> Mapping[str, str]:
    """Returns hashes by user, at least one.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    lines = text_of_file(file, INVALID_CONFIG, f"auth.passwords {file}").splitlines()
    hashes: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        user, _, hashed = line.strip().partition(":")
        if not user or user.startswith("#"):
            continue
        problem = "is listed twice" if user in hashes else _problem(hashed)
        if problem:
            raise SeamlineError(
                INVALID_CONFIG,
                f"auth.passwords {file}, line {number}: {user} {problem}",
                hint="Write the line with htpasswd -B FILE USER.",
            )
        hashes[user] = hashed
    if not hashes:
        raise SeamlineError(INVALID_CONFIG, f"auth.passwords {file} has no users")
    return hashes


def _problem(hashed: str) -> str:
    if _BCRYPT.fullmatch(hashed):
        return ""
    try:
        argon2.extract_parameters(hashed)
    except (argon2.exceptions.InvalidHashError, ValueError):
        return "has a hash that is neither bcrypt nor argon2"
    return ""

"""Kernels of URLs (RFC 2396): a text that is not a URL has no parts, which are null."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable

from seamline.errors import INVALID_ARGUMENT, SeamlineError

_FORBIDDEN = re.compile(r"""[\x00-\x20\x7f"<>\\^`{|}]|%(?![0-9a-fA-F]{2})""")
_PARTS = re.compile(
    r"(?:(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<authority>[^/?#]*))?"
    r"(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_AUTHORITY = re.compile(
    r"(?:[^@]*@)?(?P<host>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]*)(?::(?P<port>\d*))?"
)


def _parts(url: str) -> dict[str, str | None] | None:
    if _FORBIDDEN.search(url):
        return None
    match = _PARTS.fullmatch(url)
    if match is None:
        return None
    parts = match.groupdict()
    authority = _AUTHORITY.fullmatch(parts["authority"] or "")
    parts.update(authority.groupdict() if authority else {"host": None, "port": None})
    is_opaque = (
        parts["protocol"] and parts["authority"] is None and (parts["path"] or "")[:1] != "/"
    )
    if is_opaque:
        parts.update(path=None, query=None)
    return parts


def part(name: str) -> Callable[[str], str | None]:
    """Returns a function for a URL's host, protocol, path, query or fragment; empty if missing."""

    def extract(url: str) -> str | None:
        parts = _parts(url)
        return None if parts is None else urllib.parse.unquote(parts[name] or "")

    return extract


def port(url: str) -> int | None:
    """Returns the port, if the URL has one."""
    parts = _parts(url)
    return int(parts["port"]) if parts and parts["port"] else None


def parameter(url: str, name: str) -> str | None:
    """Returns the first value of a name in the query, or None."""
    parts = _parts(url)
    for pair in ((parts or {}).get("query") or "").split("&"):
        key, _, value = pair.partition("=")
        if pair and urllib.parse.unquote(key) == name:
            return urllib.parse.unquote(value)
    return None


def encode(text: str) -> str:
    """Encodes text as a name or value of a form, in which a space becomes a plus."""
    return urllib.parse.quote_plus(text, safe="*").replace("~", "%7E")


def decode(text: str) -> str:
    """Decodes text: the inverse of `encode`."""
    if re.search("%(?![0-9a-fA-F]{2})", text):
        raise SeamlineError(INVALID_ARGUMENT, f"{text[:80]!r} is not URL-encoded")
    return urllib.parse.unquote_plus(text)

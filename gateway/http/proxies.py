"""Finds the client address of a request that proxies have forwarded.

A proxy adds the address for which it forwards a request to a header. Anybody can write such a
header, so only the entries of the gateway's own proxies count: they are followed from the last
entry back to the first address that is not one of these proxies. An unreadable entry ends the
search.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

FORWARDED = "Forwarded"
X_FORWARDED_FOR = "X-Forwarded-For"
Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_NOTES_MAX = 64
_FOR = re.compile(r"(?:^|;)\s*for=([^;]*)", re.IGNORECASE)
_BRACKETED = re.compile(r"\[([^]]*)\](?::\d+)?")
_WITH_PORT = re.compile(r"([\d.]+):\d+")


class Proxies:
    """The gateway's own proxies. Safe to share between threads.

    Args:
        networks: Their networks; if there are none, the header is ignored.
        header: The header in which they record client addresses: `X-Forwarded-For` or `Forwarded`.
    """

    def __init__(self, networks: Iterable[str], header: str = X_FORWARDED_FOR) -> None:
        self._networks: Sequence[Network] = tuple(map(ipaddress.ip_network, networks))
        self._key = "HTTP_" + header.upper().replace("-", "_")
        self._is_for = header == FORWARDED

    def client(self, peer: str, noted: str) -> str:
        """Returns the address of the client that sent a request.

        Args:
            peer: The address of the immediate sender.
            noted: The header's value, or an empty string.
        """
        address = _read(peer)
        if address is None:
            return peer
        notes = noted.rsplit(",", _NOTES_MAX)[-_NOTES_MAX:] if noted else []
        for note in reversed(notes):
            before = _read(self._said(note)) if self._is_own(address) else None
            if before is None:
                break
            address = before
        return str(address)

    def seen_by(self, application: WSGIApplication) -> WSGIApplication:
        """Wraps an application so that it sees the addresses of clients instead of proxies."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            noted = environ.get(self._key, "")
            environ["REMOTE_ADDR"] = self.client(environ.get("REMOTE_ADDR", ""), noted)
            return application(environ, start_response)

        return answer

    def _is_own(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _said(self, note: str) -> str:
        """Returns the address in an entry as text; empty if there is none, or more than one."""
        if not self._is_for:
            return note.strip()
        notes = _FOR.findall(note.strip())
        return notes[0].strip().strip('"') if len(notes) == 1 else ""


def _read(text: str) -> Address | None:
    """Parses an address with or without a port; an IPv4-mapped IPv6 address becomes IPv4."""
    match = _BRACKETED.fullmatch(text) or _WITH_PORT.fullmatch(text)
    try:
        address = ipaddress.ip_address(match[1] if match else text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return mapped or address

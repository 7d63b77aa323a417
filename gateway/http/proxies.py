"""Where a request comes from, when proxies have passed it on.

A proxy notes in a header whom it has passed a request on for. Anybody can write such a header, so
only what proxies of the gateway's own have noted counts: from the last note back to the first
address that is none of theirs. A note that cannot be read ends the way back.
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
        networks: Where they are; without any, no header counts.
        header: Where they note whom a request is from: `X-Forwarded-For` or `Forwarded`.
    """

    def __init__(self, networks: Iterable[str], header: str = X_FORWARDED_FOR) -> None:
        self._networks: Sequence[Network] = tuple(map(ipaddress.ip_network, networks))
        self._key = "HTTP_" + header.upper().replace("-", "_")
        self._is_for = header == FORWARDED

    def client(self, peer: str, noted: str) -> str:
        """The address that a request comes from.

        Args:
            peer: Who has sent it here.
            noted: The header, or nothing.
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
        """The application, which sees clients where it would see proxies."""

        def answer(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            noted = environ.get(self._key, "")
            environ["REMOTE_ADDR"] = self.client(environ.get("REMOTE_ADDR", ""), noted)
            return application(environ, start_response)

        return answer

    def _is_own(self, address: Address) -> bool:
        return any(address in network for network in self._networks)

    def _said(self, note: str) -> str:
        """The address in a note, as text; nothing when it has none, or two."""
        if not self._is_for:
            return note.strip()
        found = _FOR.findall(note.strip())
        return found[0].strip().strip('"') if len(found) == 1 else ""


def _read(text: str) -> Address | None:
    """An address, which may have a port; one of IPv4 is that in whichever form it comes."""
    match = _BRACKETED.fullmatch(text) or _WITH_PORT.fullmatch(text)
    try:
        found = ipaddress.ip_address(match[1] if match else text)
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found

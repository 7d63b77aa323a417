"""The addresses of statements and their pages.

An address belongs to the statement's owner. Knowing the statement's id, which appears in errors,
logs and lists, is not enough to guess it.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import urllib.parse

import flask

from seamline.errors import STATEMENT_NOT_FOUND, SeamlineError
from seamline.gateway.trino.forms import Form
from seamline.gateway.trino.pages import Place

_SLUG_DIGITS = 32


class Addresses:
    """Makes addresses, and recognises its own.

    Args:
        external_url: The gateway's address for clients; by default that of the current request.
    """

    def __init__(self, external_url: str | None) -> None:
        self._external_url = external_url
        self._key = secrets.token_bytes(32)

    def page(self, statement_id: str, place: Place, form: Form) -> str:
        """Returns the address of a page in a form."""
        path = f"{statement_id}/{self._slug(statement_id)}/{place.chunk}/{place.row}"
        query = urllib.parse.urlencode(form.parameters())
        return f"{self._base()}/v1/statement/{path}{f'?{query}' if query else ''}"

    def info(self, statement_id: str) -> str:
        """Returns the address of a statement's page in the console, for people."""
        return f"{self._base()}/#/q/{statement_id}"

    def check(self, statement_id: str, slug: str) -> None:
        """Requires that an address was issued here.

        Raises:
            SeamlineError: STATEMENT_NOT_FOUND.
        """
        if not hmac.compare_digest(slug.encode(), self._slug(statement_id).encode()):
            raise SeamlineError(STATEMENT_NOT_FOUND, f"there is no statement {statement_id}")

    def _slug(self, statement_id: str) -> str:
        digest = hmac.new(self._key, statement_id.encode(), hashlib.sha256).hexdigest()
        return digest[:_SLUG_DIGITS]

    def _base(self) -> str:
        return (self._external_url or flask.request.host_url).rstrip("/")

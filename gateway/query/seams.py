"""The seam of one table, for readers that read both tiers themselves: Spark's executors."""

from __future__ import annotations

import contextlib
from typing import Any

from seamline.gateway.config.model import Config
from seamline.gateway.query import names, receipt
from seamline.gateway.query.deadline import StatementDeadline
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.tokens import TokenSigner
from seamline.sql import parse
from seamline.sql.qualify import TableReference


class Seams:
    """Pins tables for readers elsewhere. Safe to share between threads.

    Args:
        config: The configuration.
        gatherer: Pins tables.
        signer: Reads tokens, and makes those that repeat a read.
    """

    def __init__(self, config: Config, gatherer: Gatherer, signer: TokenSigner) -> None:
        self._config = config
        self._gatherer = gatherer
        self._signer = signer

    def pin(
        self,
        table: str,
        principal: str,
        *,
        catalog: str | None,
        schema: str | None,
        token: str | None,
    ) -> dict[str, Any]:
        """The seam of one table, with what is needed to read it from elsewhere; JSON-ready.

        Args:
            table: Its name, as SQL writes it.
            principal: The caller.
            catalog: Catalog of a name that leaves it out.
            schema: Schema of a name that leaves it out.
            token: Pins the seam that the token remembers.

        Raises:
            SeamlineError: as a query of it would.
        """
        session = names.session(self._config, catalog, schema)
        reference = TableReference(parse.parse_name(table))
        known = self._signer.read(token, principal) if token else ()
        seconds = self._config.limits.statement_seconds_max
        with contextlib.closing(StatementDeadline(seconds)) as deadline:
            (pinned,) = self._gatherer.pin([reference], session, deadline, token=known)
        token = self._signer.sign([pinned.facts.seam], principal)
        return receipt.pinned(pinned, token, self._config)

"""The seam of one table, for readers that read both tiers themselves: Spark's executors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from seamline.errors import NOT_SUPPORTED, SeamlineError
from seamline.gateway.access.rights import Principal, not_whole
from seamline.gateway.config.model import Config
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.query import receipt
from seamline.gateway.query.gather import Gatherer
from seamline.gateway.query.tokens import TokenSigner
from seamline.sql.binder.qualify import TableReference
from seamline.sql.parsing import parse


class Seams:
    """Pins tables for readers elsewhere. Safe to share between threads.

    Args:
        config: The configuration.
        gatherer_of: Returns the gatherer of a principal.
        signer: Reads tokens, and signs those that repeat a read.
    """

    def __init__(
        self, config: Config, gatherer_of: Callable[[Principal], Gatherer], signer: TokenSigner
    ) -> None:
        self._config = config
        self._gatherer_of = gatherer_of
        self._signer = signer

    def pin(
        self,
        table: str,
        caller: Principal,
        *,
        catalog: str | None,
        schema: str | None,
        token: str | None,
        whole: bool = True,
    ) -> dict[str, Any]:
        """Returns the seam of one table, with everything that a reader elsewhere needs; JSON-ready.

        Args:
            table: Its name, as SQL writes it.
            caller: The principal who asks.
            catalog: Default catalog for the name.
            schema: Default schema for the name.
            token: A token whose seam to pin again; None pins the current one.
            whole: Whether the caller will read the whole table, and must be allowed to do so.

        Raises:
            SeamlineError: whatever a query of the table would raise.
        """
        gatherer = self._gatherer_of(caller)
        session = gatherer.session(catalog, schema)
        reference = TableReference(parse.parse_name(table))
        repeated = self._signer.read(token, caller.name) if token else ()
        seconds = self._config.limits.statement_seconds_max
        with contextlib.closing(StatementDeadline(seconds)) as deadline:
            (pinned,) = gatherer.pin([reference], session, deadline, token=repeated)
        if pinned.relation.restriction and whole:
            raise not_whole(caller, pinned.facts.seam.display_name)
        source = self._config.catalogs.get(pinned.facts.seam.table[0])
        if whole and source is not None and not source.format.is_for_spark:
            raise source.format.refuses(f"table {pinned.facts.seam.display_name}")
        seam = pinned.facts.seam
        is_part = pinned.facts.kind == "hot" or seam.is_logged
        if whole and is_part and seam.table_uuid:  # a topic without a table is whole
            raise SeamlineError(
                NOT_SUPPORTED,
                f"{table} is only a part of its table and topic, and has no seam of its own",
                hint="Pin the table itself; in Spark, read its changes with the option changes.",
            )
        token = self._signer.sign([pinned.facts.seam], caller.name)
        return receipt.pinned(pinned, token, self._config)

"""A gateway with access rules, and people who ask it: over a real catalog, and a log in memory."""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from seamline.errors import SeamlineError
from seamline.gateway.access.rights import Principal
from seamline.gateway.statements.statement import StatementRequest
from support import offline
from support.gateway import Gateway, statement_rows


class Ruled:
    """A gateway with rules. The access token of everybody is their name.

    Args:
        folder: Where everything is.
        rules: The rules, as YAML.
        people: The groups of everybody who may ask.
        more: Further lines of configuration.
    """

    def __init__(
        self,
        folder: pathlib.Path,
        rules: str,
        people: Mapping[str, Sequence[str]],
        more: str = "tail: {follow: false}",
    ) -> None:
        self.people = people
        self.rules = folder / "rules.yaml"
        self.rules.write_text(rules, encoding="utf-8")
        tokens = "".join(
            f"  - name: {name}\n    sha256: {hashlib.sha256(name.encode()).hexdigest()}\n"
            f"    groups: [{', '.join(groups)}]\n"
            for name, groups in people.items()
        )
        config = offline.load_config(
            folder, f"{more}\nauth:\n  rules: {self.rules}\n  tokens:\n{tokens}"
        )
        connections = offline.MemoryConnections(config)
        self.memory = connections.memory
        self.gateway = Gateway(config, connections=connections)

    def rows(self, who: str, sql: str, **options: Any) -> list[tuple[Any, ...]]:
        """What a statement answers somebody.

        Raises:
            SeamlineError: what it ends with.
        """
        caller = Principal(who, tuple(self.people[who]))
        statement = self.gateway.service.submit(StatementRequest(sql, **options), caller)
        statement.wait(60)
        if statement.error is not None:
            raise statement.error
        return statement_rows(statement)

    def do(self, who: str, sql: str, **options: Any) -> str:
        """What a statement ends with for somebody: a code, or `done`."""
        try:
            self.rows(who, sql, **options)
        except SeamlineError as error:
            return error.code.name
        return "done"

    def said(self, who: str, sql: str, **options: Any) -> Any:
        """What a statement answers somebody, or its whole error."""
        try:
            return self.rows(who, sql, **options)
        except SeamlineError as error:
            return {k: v for k, v in error.to_json().items() if k != "query_id"}

    def ask(self, who: str, method: str, path: str, **options: Any) -> Any:
        """The answer to a request of somebody."""
        headers = {"Authorization": f"Bearer {who}", "Host": "127.0.0.1"}
        client = self.gateway.app.test_client()
        return client.open(path, method=method, headers=headers, **options)

"""Goal: a connection to a catalog ends with Spark's session, and few sessions are opened.

Method: a real Spark, and a REST catalog that requires tokens of an identity provider, which live so
briefly that every connection soon renews its own.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import multiprocessing
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.guarded_catalog import GuardedCatalog
from support.identity_provider import IdentityProvider
from support.waiting import wait_until

from seamline.connectors.spark import submission
from seamline.connectors.spark.sessions import Sessions
from seamline.errors import CATALOG_ACCESS_DENIED, SeamlineError
from seamline.gateway.catalogs.connections import Connections
from seamline.gateway.config.load import load
from seamline.gateway.tiering.tables import start_spark

pytestmark = [pytest.mark.integration, pytest.mark.prove, pytest.mark.spark]

_LIFE_S = 8
"""How long a token lives."""


class Guarded:
    """Spark, with a catalog that issues no tokens itself."""

    def __init__(self, spark: Any, provider: IdentityProvider, catalog: GuardedCatalog) -> None:
        self.spark = spark
        self._provider = provider
        self._catalog = catalog

    @property
    def connections(self) -> int:
        """How many connections were opened; each begins with a request for its configuration."""
        paths = [request.path.partition("?")[0] for request in list(self._catalog.requests)]
        return paths.count("/v1/config")

    @property
    def tokens(self) -> int:
        """How many tokens were issued."""
        return len(self._provider.issued)

    def wait_until_quiet(self) -> None:
        """Waits until nobody renews a token any more."""
        last = (self.tokens, time.monotonic())

        def is_quiet() -> bool:
            nonlocal last
            if self.tokens != last[0]:
                last = (self.tokens, time.monotonic())
            return time.monotonic() - last[1] > 3 * _LIFE_S

        wait_until(is_quiet, 90, "the connections to end")

    def use(self, session: Any) -> None:
        """Has a session connect to the catalog, unless it is connected."""
        assert session.sql("SHOW NAMESPACES IN lake").collect() == []


@contextlib.contextmanager
def guarded(folder: pathlib.Path) -> Iterator[Guarded]:
    """Spark and its catalog, with what it keeps in a folder."""
    with (
        IdentityProvider(_LIFE_S) as provider,
        GuardedCatalog(folder, provider.is_valid) as catalog,
    ):
        lake = {
            "type": "rest",
            "uri": catalog.url,
            "locations": [folder.as_uri()],
            "login": {**provider.login, "scope": "catalog"},
        }
        file = folder / "seamline.yaml"
        file.write_text(
            json.dumps(
                {
                    "catalogs": {"lake": lake},
                    "clusters": {"default": {"bootstrap_servers": "127.0.0.1:1"}},
                    "spark": {"master": "local[1]"},
                    "state_directory": str(folder / "state"),
                }
            )
        )
        spark = start_spark(Connections(load(file, environment={}).config))
        try:
            yield Guarded(spark, provider, catalog)
        finally:
            submission.stop(spark)


def batches(folder: pathlib.Path) -> None:
    """What is tested, for a process of its own: PySpark leaves its traces in all of py4j."""
    with guarded(folder) as own:
        sessions = Sessions.beside(own.spark)
        for _ in range(3):
            with sessions.session() as session:
                own.use(session)
        assert own.connections == 1
        with sessions.session() as session, sessions.session() as other:
            assert session is not other
            own.use(other)
        assert own.connections == 2
        renewed = own.tokens + 4
        wait_until(lambda: own.tokens >= renewed, 90, "renewed tokens")
        with pytest.raises(ValueError, match="failed"), sessions.session() as failed:
            raise ValueError("failed")
        with sessions.session() as session:
            assert session is not failed
            own.use(session)
        assert own.connections == 2
        with pytest.raises(SeamlineError), sessions.session() as refused:
            raise SeamlineError(CATALOG_ACCESS_DENIED, "the token has been revoked")
        assert sessions.idle == 0
        with sessions.session() as session:
            assert session not in (refused, other)
            own.use(session)
        with pytest.raises(ValueError, match="failed"), sessions.session():
            raise ValueError("failed")
        assert own.connections == 3
        own.wait_until_quiet()  # nothing was closed but what was replaced, or failed
        with sessions.session() as session:
            own.use(session)
        sessions.close()
        own.wait_until_quiet()


def test_batches_share_connections_which_end_with_their_sessions(tmp_path: pathlib.Path) -> None:
    spawning = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=spawning) as process:
        process.submit(batches, tmp_path).result(400)

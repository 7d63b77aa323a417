"""Goal: what the Iceberg catalog holds for one caller is neither read nor moved by another.

Method: a table is loaded by one principal and changes afterwards. Another then sends everything a
client may choose (tags, sessions, plan ids, pages), made from what the first was given; the first
must still get the seam it began with, and its plans.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support import offline
from support.gateway import Gateway
from werkzeug.test import TestResponse

from seamline.gateway.config.model import AccessToken, AuthConfig, IcebergConfig

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})
FILES = "/iceberg/v1/lake/namespaces/sales/tables"
PLANNED = "/iceberg-plan/v1/lake/namespaces/sales/tables"


class Catalog:
    """A gateway that knows ada and bob, over a catalog of plain tables."""

    def __init__(self, folder: pathlib.Path) -> None:
        config = offline.config(folder)
        tokens = tuple(
            AccessToken(name=n, sha256=hashlib.sha256(n.encode()).hexdigest())
            for n in ("ada", "bob")
        )
        self.gateway = Gateway(
            config.model_copy(
                update={
                    "auth": AuthConfig(tokens=tokens),
                    "iceberg": IcebergConfig(hold_seconds=3600),
                }
            )
        )
        self.client = self.gateway.app.test_client()
        lake = config.catalogs["lake"]
        self.own = SqlCatalog("lake", uri=lake.uri, warehouse=lake.warehouse)
        self.own.create_namespace("sales")
        for name in ("orders", "returns"):
            self.own.create_table(f"sales.{name}", ROWS.schema).append(ROWS)

    def ask(
        self, token: str, method: str, path: str, *, known: str | None = None, json: Any = None
    ) -> TestResponse:
        """A request with an access token, or one that stands for a session."""
        headers = {"Authorization": f"Bearer {token}", "Seamline-Sessions": "1"}
        if known is not None:
            headers["If-None-Match"] = known
        return self.client.open(
            path, method=method, base_url="http://127.0.0.1", headers=headers, json=json
        )

    def begin(self, who: str, table: str = "orders") -> TestResponse:
        """Loads a table as a statement does that begins."""
        answer = self.ask(who, "GET", f"{PLANNED}/{table}?snapshots=all")
        assert answer.status_code == 200, answer.text
        return answer

    def files(self, token: str, table: str = "orders") -> int:
        """How many files a plan of the session's own seam has."""
        answer = self.ask(token, "POST", f"{PLANNED}/{table}/plan", json={})
        assert answer.status_code == 200, answer.text
        assert answer.json is not None
        return len(answer.json["file-scan-tasks"])


@pytest.fixture
def catalog(tmp_path: pathlib.Path) -> Iterator[Catalog]:
    made = Catalog(tmp_path)
    yield made
    made.gateway.close()


def session_of(answer: TestResponse) -> str:
    assert answer.json is not None
    token: str = answer.json["config"]["token"]
    return token


def tag_with(own: TestResponse, theirs: TestResponse) -> str:
    """The tag of an answer of one's own, with the session of somebody else's."""
    document = own.headers["ETag"].strip('"').partition(".")[0]
    return f'"{document}.{theirs.headers["ETag"].strip(chr(34)).partition(".")[2]}"'


def load_with_their_tag(catalog: Catalog, ada: TestResponse) -> None:
    own = catalog.begin("bob")
    answer = catalog.ask("bob", "GET", f"{PLANNED}/orders?snapshots=all", known=tag_with(own, ada))
    assert answer.status_code in {200, 304}


def load_files_with_their_tag(catalog: Catalog, ada: TestResponse) -> None:
    own = catalog.ask("bob", "GET", f"{FILES}/orders?snapshots=all")
    catalog.ask("bob", "GET", f"{FILES}/orders?snapshots=all", known=tag_with(own, ada))


def load_another_table_with_their_tag(catalog: Catalog, ada: TestResponse) -> None:
    own = catalog.begin("bob", "returns")
    known = tag_with(own, ada)
    catalog.ask("bob", "GET", f"{PLANNED}/returns?snapshots=all", known=known)


def plan_without_a_session(catalog: Catalog, ada: TestResponse) -> None:
    assert catalog.files("bob") == 2


def load_without_a_session(catalog: Catalog, ada: TestResponse) -> None:
    catalog.begin("bob")


@pytest.mark.parametrize(
    "disturb",
    [
        load_with_their_tag,
        load_files_with_their_tag,
        load_another_table_with_their_tag,
        plan_without_a_session,
        load_without_a_session,
    ],
)
def test_a_seam_is_not_moved_by_another_principal(
    catalog: Catalog, disturb: Callable[[Catalog, TestResponse], None]
) -> None:
    ada = catalog.begin("ada")
    catalog.own.load_table("sales.orders").append(ROWS)
    disturb(catalog, ada)
    assert catalog.files(session_of(ada)) == 1, "the seam it began with"
    assert catalog.files("bob") == 2, "the table as it is now"


def test_a_callers_own_tag_keeps_its_session(catalog: Catalog) -> None:
    """An answer that is still right says nothing new, and the session continues with it."""
    first = catalog.begin("ada")
    known = first.headers["ETag"]
    again = catalog.ask("ada", "GET", f"{PLANNED}/orders?snapshots=all", known=known)
    assert again.status_code == 304
    catalog.own.load_table("sales.orders").append(ROWS)
    assert catalog.files(session_of(first)) == 1


def test_another_principals_plans_are_not_there(catalog: Catalog) -> None:
    """Nor does asking for them keep them, cancel them or page through them."""
    made = catalog.ask("ada", "POST", f"{PLANNED}/orders/plan", json={}).json
    assert made is not None
    own, path = made["plan-id"], f"{PLANNED}/orders/plan/{made['plan-id']}"
    touched_at = catalog.gateway.parts.iceberg.plans._plans[own].touched_at
    page = {"plan-task": f"{own}.0"}
    for answer in (
        catalog.ask("bob", "GET", path),
        catalog.ask("bob", "DELETE", path),
        catalog.ask("bob", "POST", f"{PLANNED}/orders/tasks", json=page),
        catalog.ask(session_of(catalog.begin("bob")), "GET", path),
    ):
        assert answer.status_code == 404
        assert answer.json is not None
        assert answer.json["error"]["type"] == "NoSuchPlanIdException"
    assert catalog.gateway.parts.iceberg.plans._plans[own].touched_at == touched_at
    found = catalog.ask("ada", "GET", path).json
    assert found is not None
    assert found["file-scan-tasks"] == made["file-scan-tasks"]


def test_ids_cannot_be_guessed(catalog: Catalog) -> None:
    """None repeats, none follows from another, and each has 96 bits at least."""
    plans = {
        catalog.ask("ada", "POST", f"{PLANNED}/orders/plan", json={}).json["plan-id"]  # type: ignore[index]
        for _ in range(20)
    }
    sessions = {
        catalog.begin("ada").headers["ETag"].strip('"').partition(".")[2] for _ in range(20)
    }
    assert len(plans) == len(sessions) == 20
    assert min(map(len, plans | sessions)) * 6 >= 96

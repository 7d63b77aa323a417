"""Goal: what a gateway gives out for one purpose is good for no other, and for nobody else.

Method: a principal collects one of everything that a gateway gives out or takes (access tokens,
logins, sessions of tables, tokens of statements, ids, addresses, plans, pages, handles, tickets),
and puts each into every place that takes such a thing. It is accepted where it belongs, and refused
by name in all other places; nothing of another principal's is accepted anywhere.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import bcrypt
import pyarrow as pa
import pyarrow.flight
import pytest
from support import offline, trino_clients
from support.flight import RawFlight
from support.gateway import Gateway

from seamline.errors import ERRORS
from seamline.gateway.flight import messages

pytestmark = pytest.mark.prove

PEOPLE = ("ann", "bob")
PLANNED = "/iceberg-plan/v1/lake/namespaces/default/tables/orders"
OTHER = PLANNED.replace("orders", "others")


class World:
    """A gateway that knows two people, and one of everything for each of them."""

    def __init__(self, folder: pathlib.Path) -> None:
        tokens = "".join(
            f"  - {{name: {name}, sha256: {hashlib.sha256(name.encode()).hexdigest()}}}\n"
            for name in PEOPLE
        )
        passwords = folder / "passwords"
        passwords.write_text("ann:" + HASH + "\nbob:" + HASH + "\n", encoding="utf-8")
        more = f"tail: {{follow: false}}\nauth:\n  passwords: {passwords}\n  tokens:\n{tokens}"
        config = offline.load_config(folder, more)
        connections = offline.MemoryConnections(config)
        for topic in ("orders", "others"):
            connections.memory.create_topic(topic, 1)
        self.gateway = Gateway(config, connections=connections)
        connections.memory.produce("orders", 0, b'{"id": 1}')
        for table in ("orders", "others"):
            self.gateway.rows(f"CREATE TABLE {table} (id bigint) WITH (topic = '{table}')")
        self.given = {name: self.collected(name) for name in PEOPLE}

    def ask(self, authorization: str, method: str, path: str, **options: Any) -> Any:
        """The answer to a request."""
        headers = {
            "Authorization": authorization,
            "Seamline-Sessions": "1",
            **options.pop("headers", {}),
        }
        client = self.gateway.app.test_client()
        return client.open(path, method=method, headers=headers, **options)

    def flight(self, authorization: str) -> RawFlight:
        """A client of Flight SQL."""
        return RawFlight.at(self.gateway.flight_url, authorization=authorization)

    def collected(self, name: str) -> dict[str, str]:
        """One of everything, of somebody."""
        own = f"Bearer {name}"
        statement = self.ask(
            own, "POST", "/api/v1/statements", json={"statement": "SELECT * FROM orders"}
        ).get_json()
        page = self.ask(own, "POST", "/v1/statement", data="SELECT 1").get_json()["nextUri"]
        loaded = self.ask(own, "GET", f"{PLANNED}?snapshots=all")
        plan = self.ask(own, "POST", f"{PLANNED}/plan", json={}).get_json()
        basic = base64.b64encode(f"{name}:secret".encode()).decode()
        (_, login) = self.flight("").client.authenticate_basic_token(name, "secret")
        client = self.flight(own)
        info = client.info("CommandStatementQuery", query="SELECT 1")
        ticket = messages.unpacked(info.endpoints[0].ticket.ticket)[1].statement_handle
        return {
            "access token": name,
            "password": basic,
            "login": login.decode().removeprefix("Bearer "),
            "table's session": loaded.get_json()["config"]["token"],
            "tag": loaded.headers["ETag"].strip('"'),
            "token": statement["token"],
            "session": statement["session"],
            "write token": write_token(),
            "statement": statement["statement_id"],
            "page": page.split("/")[-3],
            "plan": plan["plan-id"],
            "page of a plan": f"{plan['plan-id']}.0",
            "handle": client.prepare("SELECT 1").prepared_statement_handle.decode(),
            "ticket": ticket.decode(),
        }


HASH = bcrypt.hashpw(b"secret", bcrypt.gensalt(4, b"2b")).decode()


def write_token() -> str:
    text = json.dumps({"table": "orders", "offsets": {"0": 0}}).encode()
    return "w1." + base64.urlsafe_b64encode(text).decode().rstrip("=")


Place = Callable[[World, str, str], bool]
"""Whether something is accepted in a place, from somebody."""


def fine(answer: Any) -> bool:
    """Whether an answer is that what was given is taken; if not, it says why by name."""
    assert answer.status_code < 500, answer.text
    body = answer.get_json(silent=True) or {}
    error = body.get("error") if isinstance(body, dict) else None
    if answer.status_code < 400 and error is None:
        return True
    assert error is not None, answer.text
    names = (error.get("code"), trino_clients.own_name(error), error.get("type"))
    assert any(name in ERRORS for name in names) or names[2], answer.text
    return False


def asked(method: str, path: str, scheme: str = "Bearer") -> Place:
    """Whoever shows it is somebody."""
    return lambda world, _, value: fine(world.ask(f"{scheme} {value}", method, path))


def said(**body: str) -> Place:
    """It is a part of a request for a statement, `{}` in one of its texts."""

    def taken(world: World, who: str, value: str) -> bool:
        sent = {key: text.replace("{}", value) for key, text in body.items()}
        sent.setdefault("statement", "SELECT * FROM orders")
        return fine(world.ask(f"Bearer {who}", "POST", "/api/v1/statements", json=sent))

    return taken


def at(method: str, path: str, **body: str) -> Place:
    """It is a part of an address, or of a body."""

    def taken(world: World, who: str, value: str) -> bool:
        sent = {key.replace("_", "-"): text.replace("{}", value) for key, text in body.items()}
        path_ = path.replace("{}", quote(value, safe=""))
        return fine(world.ask(f"Bearer {who}", method, path_, json=sent or None))

    return taken


def own_page(world: World, who: str, value: str) -> bool:
    statement = world.given[who]["statement"]
    return fine(world.ask(f"Bearer {who}", "GET", f"/v1/statement/{statement}/{value}/0/0"))


def tailed(world: World, who: str, value: str) -> bool:
    headers = {"Last-Event-ID": value}
    answer = world.ask(f"Bearer {who}", "GET", "/api/v1/tail/orders", headers=headers)
    answer.close()
    return bool(answer.status_code == 200)


def called(call: Callable[[RawFlight, str], object], *, shows: bool = False) -> Place:
    """It is a part of a call of Flight SQL, or what shows who calls."""

    def taken(world: World, who: str, value: str) -> bool:
        client = world.flight(f"Bearer {value if shows else who}")
        try:
            call(client, value)
        except (pa.ArrowException, pa.flight.FlightError) as error:
            assert any(name in str(error) for name in ERRORS), error
            return False
        return True

    return taken


def first(client: RawFlight, _: str) -> object:
    return client.query("SELECT 1")


def with_handle(client: RawFlight, value: str) -> object:
    handle = value.encode()
    command = messages.packed("CommandPreparedStatementQuery", prepared_statement_handle=handle)
    return client.info_of(command)


def with_ticket(client: RawFlight, value: str) -> object:
    ticket = messages.packed("TicketStatementQuery", statement_handle=value.encode())
    return client.rows_of(ticket)


STATEMENTS = {"statement", "ticket"}
PLACES: dict[str, tuple[set[str], Place]] = {
    "Bearer, statements": ({"access token"}, asked("GET", "/api/v1/statements")),
    "Bearer, Trino": ({"access token"}, asked("GET", "/v1/info")),
    "Bearer, catalog": ({"access token"}, asked("GET", "/iceberg/v1/config")),
    "Bearer, table": ({"access token", "table's session"}, asked("GET", PLANNED)),
    "Bearer, another table": ({"access token"}, asked("GET", OTHER)),
    "Bearer, Flight": ({"access token", "login"}, called(first, shows=True)),
    "Basic": ({"password"}, asked("GET", "/api/v1/statements", "Basic")),
    "token": ({"token", "session"}, said(token="{}")),
    "after": ({"token", "session", "write token"}, said(after="{}")),
    "changes": (
        {"token", "session"},
        said(statement="SELECT * FROM TABLE(changes(table => 'orders', from_token => '{}'))"),
    ),
    "seam": (
        {"token", "session"}, at("POST", "/api/v1/seams", table="orders", token="{}")
    ),
    "feed": ({"token", "session"}, tailed),
    "status": (STATEMENTS, at("GET", "/api/v1/statements/{}")),
    "rows": (STATEMENTS, at("GET", "/api/v1/statements/{}/chunks/0")),
    "events": (STATEMENTS, at("GET", "/api/v1/statements/{}/events")),
    "cancel": (STATEMENTS, at("POST", "/api/v1/statements/{}/cancel")),
    "Trino's status": (STATEMENTS, at("GET", "/v1/query/{}")),
    "Trino's page": (set(), own_page),
    "plan": ({"plan"}, at("GET", f"{PLANNED}/plan/{{}}")),
    "page of a plan": ({"page of a plan"}, at("POST", f"{PLANNED}/tasks", plan_task="{}")),
    "handle": ({"handle"}, called(with_handle)),
}  # fmt: skip
"""Each with the kinds that belong there; `ticket` is an id of a statement like any other."""


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("purposes"))
    with contextlib.closing(made.gateway):
        yield made


@pytest.mark.parametrize("place", PLACES)
def test_each_is_taken_where_it_belongs_and_nowhere_else(world: World, place: str) -> None:
    belongs, taken = PLACES[place]
    wrong = {
        kind
        for kind, value in world.given["ann"].items()
        if taken(world, "ann", value) is not (kind in belongs)
    }
    assert not wrong


SHOWN = {name for name in PLACES if name.startswith(("Bearer", "Basic"))}
"""Where what is shown says who asks, so that there is nobody else who could show it."""


@pytest.mark.parametrize("place", sorted(PLACES.keys() - SHOWN))
def test_nothing_of_another_is_taken(world: World, place: str) -> None:
    _, taken = PLACES[place]
    theirs = {kind: value for kind, value in world.given["ann"].items() if kind != "write token"}
    assert not {kind for kind, value in theirs.items() if taken(world, "bob", value)}


def test_a_ticket_gives_its_own_rows_to_its_owner_only(world: World) -> None:
    ticket = called(with_ticket)
    for kind, value in world.given["ann"].items():
        assert not ticket(world, "bob", value), kind
    rest = {kind: v for kind, v in world.given["ann"].items() if kind not in STATEMENTS}
    assert not {kind for kind, value in rest.items() if ticket(world, "ann", value)}

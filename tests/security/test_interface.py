"""Goal: both REST APIs do what their description says, whatever they are sent and whoever sends it.

Method: schemathesis makes requests of the description that the gateway serves, right ones and wrong
ones, with names of what there is and of what there is not, as three principals: one who may do
everything, one who sees few rows of one table, one who may do nothing. Nothing ends with 500, with
a status or type that is not described, or with JSON that does not fit its schema. The gateway is a
real one over a real broker and catalog.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import pathlib
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import positive_data_acceptance
from support.gateway import Gateway
from support.stack import Stack

from seamline.gateway.access.rights import Principal
from seamline.gateway.app import openapi
from seamline.gateway.config.model import AccessToken, AuthConfig
from seamline.gateway.statements.statement import StatementRequest

pytestmark = pytest.mark.integration

RULES = """
catalogs: [{user: mute, allow: none}, {allow: all}]
tables:
- {user: boss, privileges: [SELECT, INSERT, OWNERSHIP]}
- user: ann
  table: orders
  privileges: [SELECT]
  filter: id < 3
  columns: [{name: text, mask: "'*'"}]
queries:
- {user: boss, allow: [execute, view, kill]}
- {user: mute, allow: []}
- {allow: [execute]}
system_information: [{user: boss, allow: [read]}]
"""
PEOPLE = ("boss", "ann", "mute")
EXAMPLES = 12
SQL = (
    "SELECT id, text FROM orders ORDER BY id",
    "SELECT count(*) FROM plain WHERE id = ?",
    "SELECT * FROM nothing",
    "SELECT 1/0",
    "EXPLAIN SELECT * FROM orders",
    "SHOW TABLES",
    "SELECT map(ARRAY['a'], ARRAY[nan()]), X'00', DATE '2024-02-29'",
)
NEVER = {
    "api/v1/tail/{table}",
    "iceberg-plan/v1/{prefix}/namespaces/{namespace}/tables/{table}/tasks",
    *(
        f"{root}/v1/{{prefix}}/namespaces/{{namespace}}/views/{{view}}"
        for root in ("iceberg", "iceberg-plan")
    ),
}
"""What does not succeed even for whoever may do everything: streams would not end, plans have one
page, and the catalog has no views."""
UNASKED = [positive_data_acceptance]
"""What a description cannot say: which names there are, and which texts are SQL."""


class World:
    """A gateway with rules, and what there is in it.

    Args:
        stack: The broker and the catalog.
        folder: Where the gateway keeps its state.
    """

    def __init__(self, stack: Stack, folder: pathlib.Path) -> None:
        rules = folder / "rules.yaml"
        rules.write_text(RULES, encoding="utf-8")
        tokens = tuple(
            AccessToken(name=who, sha256=hashlib.sha256(who.encode()).hexdigest()) for who in PEOPLE
        )
        limits = stack.config.limits.model_copy(update={"statement_seconds_max": 20})
        changed = {
            "auth": AuthConfig(tokens=tokens, rules=str(rules)),
            "limits": limits,
            "state_directory": str(folder / "state"),
        }
        self.gateway = Gateway(stack.config.model_copy(update=changed))
        stack.create_topic("orders", 2)
        stack.create_table("orders", "id bigint, text varchar")
        stack.produce("orders", [{"id": n, "text": f"t{n}"} for n in range(10)])
        self.do("boss", "CREATE TABLE plain AS SELECT * FROM (VALUES (1, 'a')) AS t(id, text)")
        self.known: dict[str, list[str]] = {}
        self.renew()

    def do(self, who: str, sql: str) -> str:
        """Runs a statement of somebody, and returns its id."""
        made = self.gateway.service.submit(StatementRequest(sql), Principal(who))
        made.wait(60)
        assert made.error is None, made.error
        return made.statement_id

    def renew(self) -> None:
        """Recreates the names of what there is: some routes remove what they name."""
        self.known = {
            "statement_id": [self.do(who, SQL[0]) for who in ("boss", "ann")],
            "table": ["orders", "plain", "nothing"],
            "prefix": ["lake"],
            "namespace": ["default"],
            "plan_id": [self.plan()],
        }

    def plan(self) -> str:
        """A planned scan of the boss."""
        client = self.gateway.app.test_client()
        path = "/iceberg-plan/v1/lake/namespaces/default/tables/orders/plan"
        answer = client.post(path, json={}, headers={"Authorization": "Bearer boss"})
        return str(answer.get_json()["plan-id"])

    def right_names(self) -> dict[str, Any]:
        """Parts of paths that name something that there is."""
        self.renew()
        right: dict[str, Any] = {name: known[0] for name, known in self.known.items()}
        return collections.defaultdict(lambda: "none", {**right, "index": 0})

    def one_of(self, kind: str, drawn: str) -> str:
        """Something that there is, chosen by what was drawn."""
        known = self.known[kind]
        return known[len(drawn) % len(known)]

    def path(self, given: dict[str, Any], *, streams: bool) -> dict[str, Any]:
        """Parts of a path, every other one the name of something that there is."""
        found: dict[str, Any] = {
            name: self.one_of(name, str(value))
            if name in self.known and not streams and _is_replaced(str(value))
            else value
            for name, value in given.items()
        }
        is_number = type(found.get("index")) is int and found["index"] >= 0
        return {**found, "index": 0} if is_number else found


def _is_replaced(drawn: str) -> bool:
    """Whether what was drawn gives way to something that there is: three times in four."""
    return bool(zlib.crc32(drawn.encode("utf-8", "replace")) % 4)


@pytest.fixture(scope="module")
def world(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(stack, tmp_path_factory.mktemp("interface"))
    with contextlib.closing(made.gateway):
        yield made


@pytest.fixture
def interface(world: World) -> Any:
    schema = schemathesis.openapi.from_wsgi(
        openapi.PATH, world.gateway.app, headers={"Authorization": "Bearer boss"}
    )

    def path_parameters(context: Any, given: dict[str, Any] | None) -> dict[str, Any] | None:
        streams = context.operation.path.startswith("/api/v1/tail")
        return world.path(given, streams=streams) if given else given

    def query(context: Any, given: dict[str, Any] | None) -> dict[str, Any] | None:
        return {**given, "engine": "auto"} if given and given.get("engine") == "spark" else given

    def body(context: Any, given: Any) -> Any:
        if isinstance(given, str) and _is_replaced(given):
            return SQL[len(given) % len(SQL)]
        if isinstance(given, dict) and isinstance(given.get("table"), str):
            table = world.one_of("table", given["table"])
            given = {**given, "table": table if _is_replaced(given["table"]) else given["table"]}
        if isinstance(given, dict) and isinstance(given.get("statement"), str):
            given = {**given, "wait_timeout": 5}
            if given.get("engine") == "spark":
                given["engine"] = "auto"
            if _is_replaced(given["statement"]):
                given["statement"] = SQL[len(given["statement"]) % len(SQL)]
        return given

    schema.hook("map_path_parameters")(path_parameters)
    schema.hook("map_query")(query)
    schema.hook("map_body")(body)
    return schema


def modes(operation: Any) -> list[GenerationMode]:
    """Right requests, and wrong ones where anything can be wrong besides names in the path."""
    may_be_wrong = any((operation.query, operation.headers, operation.body))
    return list(GenerationMode) if may_be_wrong else [GenerationMode.POSITIVE]


@pytest.mark.one_in(prove=3)
@pytest.mark.parametrize("who", PEOPLE)
def test_the_interface_is_as_it_is_described(world: World, interface: Any, who: str) -> None:
    answered: dict[str, set[int]] = collections.defaultdict(set)
    wrong = []
    for operation in (found.ok() for found in interface.get_all_operations()):
        for mode in modes(operation):

            @settings(
                max_examples=EXAMPLES,
                deadline=None,
                derandomize=True,
                database=None,
                suppress_health_check=list(HealthCheck),
            )
            @given(operation.as_strategy(generation_mode=mode))
            def ask(case: Any) -> None:
                # the client that reads the answers does not decompress them
                headers = {"Authorization": f"Bearer {who}", "Accept-Encoding": "identity"}
                answer = case.call_and_validate(headers=headers, excluded_checks=UNASKED)
                answered[case.operation.label].add(answer.status_code)

            try:
                ask()
            except FailureGroup as failure:
                wrong.append(f"{operation.label} ({mode.value}): {failure}")
        if operation.method == "delete":
            world.renew()
    assert not wrong, "\n\n".join(wrong)
    table = "/iceberg-plan/v1/{prefix}/namespaces/{namespace}/tables/{table}"
    bodies: dict[str, dict[str, Any]] = {  # what is drawn is hardly ever all right
        "/api/v1/statements": {"json": {"statement": SQL[0]}},
        "/api/v1/query": {"data": SQL[0], "content_type": "application/sql"},
        "/api/v1/seams": {"json": {"table": "orders"}},
        f"{table}/plan": {"json": {}},
    }
    client, headers = world.gateway.app.test_client(), {"Authorization": f"Bearer {who}"}
    for label, body in bodies.items():
        path = label.format(prefix="lake", namespace="default", table="orders")
        plain = client.post(path, **body, headers=headers)
        assert who != "boss" or plain.status_code in {200, 202}, plain.get_data(as_text=True)
        answered[f"POST {label}"].add(plain.status_code)
    for operation in (found.ok() for found in interface.get_all_operations()):
        is_safe = operation.method in {"get", "head"} or operation.path.endswith("{plan_id}")
        if is_safe and "/tail/" not in operation.path:  # streams would not end
            path = operation.path.format_map(world.right_names())
            plain = client.open(path, method=operation.method, headers=headers)
            answered[operation.label].add(plain.status_code)
    never = {label for label, found in answered.items() if not found & {200, 202, 204, 304}}
    assert who != "boss" or {label.partition("/")[2] for label in never} == NEVER

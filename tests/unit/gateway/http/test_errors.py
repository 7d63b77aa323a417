"""Goal: a named error keeps its name, status and class over HTTP, and ends the command with 1.

Method: the real application gets routes that fail by name; the real client and the real command ask
for them over a loopback socket.
"""

from __future__ import annotations

from collections.abc import Iterator

import flask
import pytest
from support import offline
from support.gateway import Gateway

import seamline
from seamline import cli
from seamline.dbapi.errors import class_of
from seamline.errors import ERRORS, Location, SeamlineError

CLASSES = {
    "DIVISION_BY_ZERO": seamline.DataError,
    "INTERNAL_ERROR": seamline.InternalError,
    "KAFKA_UNAVAILABLE": seamline.OperationalError,
    "MEMORY_LIMIT": seamline.OperationalError,
    "NOT_SUPPORTED": seamline.NotSupportedError,
    "SYNTAX_ERROR": seamline.ProgrammingError,
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`ADDRESS/NAME` stands for a gateway whose every statement fails with NAME."""
    gateway = Gateway(offline.config(tmp_path_factory.mktemp("gateway")))

    @gateway.app.post("/fail/<name>/api/v1/statements")
    def fail(name: str) -> flask.Response:
        raise SeamlineError(
            ERRORS[name], "what happened", location=Location(2, 7), details={"partition": 3}
        )

    @gateway.app.post("/crash/api/v1/statements")
    def crash() -> flask.Response:
        raise KeyError("a secret of the gateway")

    try:
        yield gateway.url
    finally:
        gateway.close()


@pytest.mark.parametrize("name", ERRORS)
def test_the_client_raises_what_the_gateway_named(address: str, name: str) -> None:
    connection = seamline.connect(f"{address}/fail/{name}")
    with pytest.raises(seamline.Error) as caught, connection:
        connection.execute("SELECT 1")
    error = caught.value
    assert error.code is ERRORS[name]
    assert type(error) is CLASSES.get(name, class_of(error))
    assert (error.message, error.location) == ("what happened", Location(2, 7))
    assert error.details == {"partition": 3}
    assert error.hint == ERRORS[name].hint


@pytest.mark.parametrize("name", ERRORS)
def test_the_status_is_the_declared_one(address: str, name: str) -> None:
    answer = seamline.connect(address)._transport._send(
        "POST", f"/fail/{name}/api/v1/statements", {}
    )
    assert answer.status == ERRORS[name].http_status


@pytest.mark.parametrize("name", ERRORS)
def test_the_command_ends_with_its_code_and_says_name_and_hint(
    address: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["query", "--url", f"{address}/fail/{name}", "SELECT 1"])
    assert caught.value.code == (3 if name == "GATEWAY_UNAVAILABLE" else 1)
    said = capsys.readouterr()
    assert said.err == (f"error: {name}: what happened (line 2:7)\nhint: {ERRORS[name].hint}\n")
    assert said.out == ""


def test_a_fault_of_the_gateway_tells_its_kind_and_nothing_of_its_inside(address: str) -> None:
    with pytest.raises(seamline.InternalError) as caught:
        seamline.connect(f"{address}/crash").execute("SELECT 1")
    assert "KeyError" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [
        ("GET", "/nothing/here", "NOT_FOUND"),
        ("DELETE", "/api/v1/statements", "METHOD_NOT_ALLOWED"),
        ("GET", "/api/v1/statements/unknown", "STATEMENT_NOT_FOUND"),
    ],
)
def test_routes_that_are_not_there_answer_by_name(
    address: str, method: str, path: str, name: str
) -> None:
    with pytest.raises(seamline.ProgrammingError) as caught:
        seamline.connect(address)._transport.json(method, path)
    assert caught.value.code is ERRORS[name]


def test_a_body_that_is_too_large_is_refused_by_name(address: str) -> None:
    with pytest.raises(seamline.OperationalError) as caught:
        seamline.connect(address).execute("SELECT '" + "x" * (2 << 20) + "'")
    assert caught.value.code is ERRORS["REQUEST_TOO_LARGE"]


def test_what_is_no_gateway_is_said_to_be_none(address: str) -> None:
    with pytest.raises(seamline.OperationalError, match="nothing listens there"):
        seamline.connect("http://127.0.0.1:1").execute("SELECT 1")

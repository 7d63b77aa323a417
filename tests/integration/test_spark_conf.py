"""`seamline spark-conf`: the same settings in every form, and a check that says what is wrong.

Method: the command itself, asked about a gateway that runs, one that does not, a server that is not
a gateway, and a gateway whose files this machine does not see.
"""

from __future__ import annotations

import contextlib
import http.server
import json
import pathlib
import re
import shlex
import threading
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from support.gateway import Gateway
from support.ports import reserved_port
from support.stack import Stack

from seamline.commands.spark_conf import spark_conf
from seamline.dbapi.errors import Error
from seamline.errors import SeamlineError
from seamline.gateway.iceberg_rest.routes import PROBE_PROPERTY
from seamline.spark.catalog import configuration

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def own(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    state = tmp_path_factory.mktemp("spark-conf")
    running = Gateway(stack.configured({**stack.flags, "state_directory": str(state)}))
    try:
        yield running
    finally:
        running.close()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(spark_conf, arguments)


def code_of(result: Result) -> str:
    assert isinstance(result.exception, SeamlineError | Error), result.exception
    return result.exception.code.name


def test_every_form_says_the_same(own: Gateway) -> None:
    as_json = json.loads(run("--url", own.url, "--form", "json").output)
    lines = run("--url", own.url, "--form", "defaults").output.splitlines()
    assert dict(re.split(r"\s+", line, maxsplit=1) for line in lines) == as_json
    words = shlex.split(run("--url", own.url, "--form", "shell").output.replace("\\\n", " "))
    assert words[0] == "spark-sql"
    assert set(words[1::2]) == {"--conf"}
    assert dict(word.split("=", 1) for word in words[2::2]) == as_json
    assert configuration(own.url).items() <= as_json.items()
    assert as_json["spark.sql.catalog.live.cache-enabled"] == "false"


def test_the_runtime_is_the_one_of_the_version() -> None:
    jar = "iceberg-spark-runtime-3.5_2.12"
    assert jar in run("--spark-version", "3.5.6").output
    for version in ("3.4.1", "next"):
        assert code_of(run("--spark-version", version)) == "INVALID_ARGUMENT"


@pytest.mark.parametrize("mode", [(), ("--planned",)])
def test_a_gateway_that_is_well(own: Gateway, mode: tuple[str, ...]) -> None:
    result = run("--url", own.url, "--check", *mode)
    assert result.exit_code == 0, result.output
    assert re.search(r"answers, with \d+ routes", result.stderr)
    assert "can be read from this machine" in result.stderr
    assert "spark.sql.catalog.live " in result.stdout


def test_a_gateway_that_does_not_answer() -> None:
    result = run("--url", f"http://127.0.0.1:{reserved_port()}", "--check")
    assert code_of(result) == "GATEWAY_UNAVAILABLE"
    assert not result.stdout


@contextlib.contextmanager
def answering(body: dict[str, object]) -> Iterator[str]:
    """A server that answers everything with one document."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_is_no_gateway() -> None:
    with answering({}) as url:
        result = run("--url", url, "--check")
    assert code_of(result) == "GATEWAY_UNAVAILABLE"
    assert "is not an Iceberg catalog" in str(result.exception)


def test_a_gateway_whose_files_are_not_seen_from_here(tmp_path: pathlib.Path) -> None:
    probe = (tmp_path / "elsewhere" / "probe.txt").as_uri()
    with answering({"endpoints": ["GET /v1/config"], "defaults": {PROBE_PROPERTY: probe}}) as url:
        result = run("--url", url, "--check")
    assert result.exit_code == 1
    assert "iceberg.location" in result.stderr

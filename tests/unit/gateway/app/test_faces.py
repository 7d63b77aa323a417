"""Goal: a face of the gateway is declared once, and an entry in that table is all that one needs.

Method: `seamline serve` as a process of its own, with two more entries in the table: a face with a
route on the HTTP application, and a face with a port of its own.
"""

from __future__ import annotations

import pathlib
import re
import signal
import socket

import pytest
import urllib3
from support import offline, programs, toy_faces
from support.waiting import wait_until

from seamline.gateway.config.model import Config
from seamline.gateway.faces import FACES


def test_an_entry_is_all_that_a_face_needs(tmp_path: pathlib.Path) -> None:
    file = offline.write(tmp_path, "toy_port: {port: 0}\nflight: {port: 0}\n")
    log = tmp_path / "log"
    command = programs.module("toy_faces", "serve", "--config", str(file), "--port", "0")
    with programs.running(command, {}, log) as process:

        def addresses() -> list[str] | None:
            line = re.search(r"gateway on (.+) \(Ctrl-C", log.read_text())
            assert line or process.poll() is None, log.read_text()
            return line[1].split(" and ") if line else None

        http, flight, own = wait_until(addresses, 120, "the gateway to answer") or ["", "", ""]
        assert flight.startswith("grpc://127.0.0.1:")
        assert own.startswith("toy://127.0.0.1:")
        answer = urllib3.request("GET", f"{http}/toy", retries=False)
        assert answer.json() == {"caller": "anonymous"}
        absent = urllib3.request("GET", f"{http}/toy/absent", retries=False)
        assert absent.json()["error"]["code"] == "NOT_FOUND"
        with socket.create_connection(("127.0.0.1", int(own.rpartition(":")[2])), 30) as client:
            assert client.makefile("rb").readline() == toy_faces.GREETING
        assert "/toy" not in urllib3.request("GET", f"{http}/api/v1/openapi.json").json()["paths"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert log.read_text().splitlines()[1:] == [toy_faces.CLOSED]


def test_a_port_that_is_not_set_is_not_opened(tmp_path: pathlib.Path) -> None:
    assert offline.config(tmp_path).ports == {}
    assert offline.config(tmp_path, flight__port="0").ports == {"flight": 0}


@pytest.mark.parametrize("name", FACES)
def test_a_face_has_settings_if_it_has_a_port(name: str) -> None:
    settings = Config.model_fields
    if FACES[name].has_port:
        assert settings[name].description == f"Where it listens for {FACES[name].protocol}."
    elif name in settings:
        assert "port" not in getattr(settings[name].annotation, "model_fields", {})

"""Goal: what is remembered of a broker comes back as it was, or says that it cannot.

Method: written and read files, whole and broken.
"""

from __future__ import annotations

import pathlib

import pytest

from seamline.errors import LOCAL_STACK_FAILED, SeamlineError
from seamline.gateway.dev.local import state
from seamline.gateway.dev.local.ports import Ports
from seamline.gateway.dev.local.state import State
from seamline.gateway.process import ProcessIdentity


@pytest.mark.parametrize("process", [None, ProcessIdentity(42, "boot/1234")])
def test_state_comes_back(tmp_path: pathlib.Path, process: ProcessIdentity | None) -> None:
    written = State(Ports(19092, 19093), process)
    state.write(tmp_path / "local.json", State(Ports(1, 2), None))
    state.write(tmp_path / "local.json", written)
    assert state.read(tmp_path / "local.json") == written
    assert [path.name for path in tmp_path.iterdir()] == ["local.json"]


def test_no_file_is_no_state(tmp_path: pathlib.Path) -> None:
    assert state.read(tmp_path / "local.json") is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "\udcff",
        "[]",
        "null",
        "{}",
        '{"version": 2, "ports": {"kafka": 1, "controller": 2}, "process": null}',
        '{"version": 1, "ports": {"kafka": 1}, "process": null}',
        '{"version": 1, "ports": {"kafka": 1, "controller": 2}, "process": {"pid": "x"}}',
    ],
)
def test_broken_state_is_an_error_and_not_an_empty_one(tmp_path: pathlib.Path, text: str) -> None:
    path = tmp_path / "local.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(SeamlineError, match=f"{path} cannot be parsed") as caught:
        state.read(path)
    assert caught.value.code is LOCAL_STACK_FAILED


def test_a_state_that_cannot_be_read_is_an_error(tmp_path: pathlib.Path) -> None:
    with pytest.raises(SeamlineError, match="cannot be parsed"):
        state.read(tmp_path)

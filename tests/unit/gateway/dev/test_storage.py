"""Goal: a broker is told to listen on loopback only, and its identity is read back or missed.

Method: the settings as text; storage as formatting leaves it.
"""

from __future__ import annotations

import pathlib

import pytest

from seamline.errors import LOCAL_STACK_FAILED, SeamlineError
from seamline.gateway.dev.local.ports import Ports
from seamline.gateway.dev.local.storage import cluster_id, server_properties


def properties(data: str = "/state/kafka/data") -> dict[str, str]:
    """The settings by name."""
    text = server_properties(pathlib.Path(data), Ports(19092, 19093))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_every_listener_is_on_loopback() -> None:
    settings = properties()
    assert settings["listeners"] == "PLAINTEXT://127.0.0.1:19092,CONTROLLER://127.0.0.1:19093"
    assert settings["advertised.listeners"] == "PLAINTEXT://127.0.0.1:19092"
    assert settings["controller.quorum.voters"] == "1@127.0.0.1:19093"


def test_one_node_is_enough_and_topics_are_not_made_by_accident() -> None:
    settings = properties()
    replicas = {name: value for name, value in settings.items() if "replication.factor" in name}
    assert set(replicas.values()) == {"1"}
    assert len(replicas) == 3
    assert settings["auto.create.topics.enable"] == "false"


def test_path_is_written_as_java_reads_it() -> None:
    assert properties("/a b/ü/\U0001f600")["log.dirs"] == r"/a b/\u00fc/\ud83d\ude00"


def test_cluster_id_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "meta.properties").write_text("#\nnode.id=1\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\n")
    assert cluster_id(tmp_path) == "MkU3OEVBNTcwNTJENDM2Qk"


@pytest.mark.parametrize("text", [None, "", "node.id=1\n"])
def test_missing_cluster_id_is_named(tmp_path: pathlib.Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "meta.properties").write_text(text)
    with pytest.raises(SeamlineError, match="does not contain the broker's identity") as caught:
        cluster_id(tmp_path)
    assert caught.value.code is LOCAL_STACK_FAILED

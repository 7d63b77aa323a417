"""Goal: the one line of a broker's log that says why it did not start is found and named.

Method: logs as brokers wrote them, shortened.
"""

from __future__ import annotations

import pathlib

import pytest

from seamline.errors import DISK_FULL, LOCAL_STACK_FAILED, PORT_TAKEN
from seamline.gateway.dev.local.broker_log import last_error, start_failure

LOCKED = """\
2026-01-01 10:00:00.000 WARN org.apache.kafka.QuorumController - Performing activation.
2026-01-01 10:00:01.000 ERROR kafka.server.BrokerServer - Fatal error during broker startup.
org.apache.kafka.common.KafkaException: Failed to acquire lock on file .lock in data.
\tat kafka.log.LogManager.lockLogDirs(LogManager.scala:250)
2026-01-01 10:00:01.100 WARN org.apache.kafka.clients.NetworkClient - Attempting to close.
"""
BOUND = """\
java.lang.RuntimeException: Unable to start acceptor for PLAINTEXT
Caused by: KafkaException: Socket server failed to bind to 127.0.0.1:19092: Address already in use.
Caused by: java.net.BindException: Address already in use
\t... 18 more
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            LOCKED,
            "org.apache.kafka.common.KafkaException: Failed to acquire lock on file .lock in data.",
        ),
        (BOUND, "Caused by: java.net.BindException: Address already in use"),
        ("one\nERROR kafka.Kafka - Exiting\nbye\n", "ERROR kafka.Kafka - Exiting"),
        ("Error: Could not find or load main class\n", "Error: Could not find or load main class"),
        ("Killed\n\n", "Killed"),
        ("", "nothing"),
    ],
)
def test_last_error(text: str, line: str) -> None:
    assert last_error(text) == line


def test_failure_names_the_log_and_its_error(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(LOCKED)
    error = start_failure(log, "the broker ended")
    assert error.code is LOCAL_STACK_FAILED
    (_, cause) = last_error(LOCKED).split(": ", 1)  # the name of a Java class is left out
    assert error.message == f"the broker ended; {log} says: {cause}"
    assert error.details == {"log": str(log)}


def test_failure_without_a_log_is_named_too(tmp_path: pathlib.Path) -> None:
    error = start_failure(tmp_path / "broker.log", "the broker ended")
    assert error.message.endswith("says: nothing")


def test_taken_port_is_named(tmp_path: pathlib.Path) -> None:
    (tmp_path / "broker.log").write_text(BOUND)
    error = start_failure(tmp_path / "broker.log", "the broker ended")
    assert error.code is PORT_TAKEN
    assert "port 19092" in error.message


def test_full_disk_is_named(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text(BOUND + "Caused by: java.io.IOException: No space left on device\n")
    assert start_failure(log, "the broker ended").code is DISK_FULL


def test_only_the_end_of_a_long_log_is_read(tmp_path: pathlib.Path) -> None:
    log = tmp_path / "broker.log"
    log.write_text("No space left on device\n" + "x" * 79 + "\n" + ("y" * 79 + "\n") * 20_000)
    assert start_failure(log, "the broker ended").message.endswith("y" * 79)

"""Checks Kafka clusters and their schema registries: what answers, and what does not.

Each address is probed by itself. Then the client logs in as it does for statements. Finally, every
broker is reached at its advertised address, since a broker may answer at one address but advertise
another that cannot be reached.
"""

from __future__ import annotations

import contextlib
import logging
import re
import time
from collections.abc import Iterator
from typing import Any

from seamline.connectors.config import ClusterConfig
from seamline.connectors.kafka import probing
from seamline.connectors.kafka.clients import properties_of, reason_of, refusal
from seamline.connectors.kafka.formats.registries import registry
from seamline.connectors.kafka.probing import Answer
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError
from seamline.gateway.deadline import StatementDeadline
from seamline.gateway.doctor.findings import Finding, Level, of_error, ok, skipped, warning, wrong

_SKEW_S = 5.0
_POLL_S = 0.5
_STEPS = 3
"""Each step of probing an address may take the remaining time divided by this."""
_GIVEN = re.compile(
    r"(?P<host>[^/\s]+):(?P<port>\d+)/(?P<id>\d+): .*(?:Connect to|Failed to resolve)"
)
"""How librdkafka's errors name a broker at its advertised address."""
_SUBJECT = "seamline-doctor"
_ID = "00000000-0000-0000-0000-000000000000"
"""A subject and an id that no registry has; such an answer shows that the registry works."""


def look(config: ClusterConfig, seconds: float) -> Iterator[Finding]:
    """Checks a cluster's brokers, topic ids, clock, login, and advertised addresses.

    Args:
        config: How the cluster is reached.
        seconds: How long to wait for the login.
    """
    until = time.monotonic() + seconds
    answers: list[Answer] = []
    failures: list[SeamlineError] = []
    for host, port in probing.addresses(config.bootstrap_servers):
        step_s = max(_POLL_S, min(seconds, until - time.monotonic()) / _STEPS)
        try:
            answers.append(probing.probe(host, port, config.client_properties(), step_s))
        except SeamlineError as error:
            failures.append(error)
            continue
        release = answers[-1].release
        yield ok(f"{host}:{port} answers{f', speaks {release}' if release else ''}")
    level = Level.WARNING if answers else Level.WRONG  # one of several suffices to bootstrap
    for failure in failures:
        yield of_error(failure, level)
    if not answers:
        return
    yield from _versions(answers[0])
    yield from _clock(answers)
    yield from _client(config, until)


def _versions(answer: Answer) -> Iterator[Finding]:
    if not answer.tells_topic_ids:
        yield wrong(
            "the brokers do not report topic ids, by which a recreated topic is recognised",
            "Kafka 2.8 or newer is needed.",
        )


def _clock(answers: list[Answer]) -> Iterator[Finding]:
    offsets_s = [a.clock_ahead_s for a in answers if a.clock_ahead_s is not None]
    if not offsets_s:
        yield skipped("clock: the brokers do not report their time before a login")
        return
    ahead = max(offsets_s, key=abs)
    if abs(ahead) > _SKEW_S:
        side = "ahead of" if ahead > 0 else "behind"
        text = f"the cluster's clock is {abs(ahead):.1f} s {side} ours"
        yield warning(
            f"{text}: ages, `FOR TIMESTAMP AS OF` and logins by token are wrong by that",
            "Synchronize both with NTP.",
        )
    else:
        yield ok(f"the cluster's clock agrees with ours, within {max(0.1, abs(ahead)):.1f} s")


def _client(config: ClusterConfig, until: float) -> Iterator[Finding]:
    """Checks the login and the advertised addresses, using the client with all its properties."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    messages: list[Any] = []
    try:
        admin = AdminClient(
            {**properties_of(config), "error_cb": messages.append}, logger=_silent()
        )
    except KafkaException as error:
        yield wrong(
            f"the client rejects its properties: {error.args[0].str()}",
            f"Correct clusters.{config.name}.properties.",
        )
        return
    while True:
        left = until - time.monotonic()
        try:
            metadata = admin.list_topics(timeout=max(0.1, min(_POLL_S, left)))
            break
        except KafkaException as error:
            admin.poll(0)
            messages.append(error.args[0])
            refusal = _refused(config, messages)
            if refusal is not None or time.monotonic() + 2 * _POLL_S > until:
                yield refusal or _silent_broker(config, messages)
                return
    brokers = sorted(metadata.brokers.values(), key=lambda broker: broker.id)
    topics = [name for name in metadata.topics if not name.startswith("__")]
    yield ok(
        f"the client can log in, and sees {_some(brokers, 'broker')} and {_some(topics, 'topic')}"
    )
    for broker in brokers:
        with contextlib.suppress(SeamlineError):
            probing.reach(broker.host, broker.port)
            continue
        yield _away(broker.id, broker.host, broker.port)


def _away(number: object, host: str, port: object) -> Finding:
    return Finding(
        Level.WRONG,
        f"broker {number} advertises {host}:{port}, which cannot be reached from here",
        "Correct advertised.listeners of the broker, or make the name known to this machine.",
        KAFKA_UNAVAILABLE.name,
    )


def _refused(config: ClusterConfig, messages: list[Any]) -> Finding | None:
    """Returns a finding if the client's errors show that the login or TLS fails."""
    for error in messages:
        refused = refusal(config, error)
        if refused is not None:
            return Finding(Level.WRONG, *refused, KAFKA_UNAVAILABLE.name)
    return None


def _silent_broker(config: ClusterConfig, messages: list[Any]) -> Finding:
    for error in messages:
        given = _GIVEN.search(error.str())
        if given is not None:  # it tried a broker's advertised address
            return _away(given["id"], given["host"], given["port"])
    logs_in = config.client_properties().get("security.protocol", "").lower().startswith("sasl")
    remedy = "Check the brokers' logs."
    if not logs_in:
        remedy = "They may require a login: set security.protocol to sasl_ssl or sasl_plaintext."
    return Finding(
        Level.WRONG,
        f"brokers accept connections, but do not answer this client: {reason_of(messages[0])}",
        remedy,
        KAFKA_UNAVAILABLE.name,
    )


def _some(things: list[Any], word: str) -> str:
    return f"{len(things):,} {word}{'' if len(things) == 1 else 's'}"


def _silent() -> logging.Logger:
    """Returns a logger that drops librdkafka's messages, which the findings state better."""
    made = logging.getLogger("seamline.doctor.kafka")
    made.setLevel(logging.CRITICAL)
    return made


def schema_registry(config: ClusterConfig, seconds: float) -> Iterator[Finding]:
    """Checks whether the schema registry answers and accepts the login."""
    address = config.schema_registry.address
    try:
        schemas = registry(config.schema_registry).within(StatementDeadline(seconds))
        schemas.latest(_SUBJECT)
        with contextlib.suppress(ValueError):
            schemas.by_id(_ID)
    except SeamlineError as error:
        yield of_error(error)
    else:
        yield ok(f"the schema registry at {address} answers")

"""Finds out what answers at the address of a broker, with a few bytes of Kafka's protocol.

A Kafka client reports every problem as no broker being up. This module resolves the address,
connects, speaks TLS if the properties say so, and asks for the protocol's versions, which a broker
reports before login. Each step that fails says what is there instead.
"""

from __future__ import annotations

import contextlib
import dataclasses
import socket
import ssl
import struct
import time
from collections.abc import Iterator, Mapping
from typing import Any

from seamline.connectors.kafka.wire import API_VERSIONS, DESCRIBE_QUORUM, Reader, request, text
from seamline.errors import KAFKA_UNAVAILABLE, SeamlineError

STEP_S = 3.0
"""How long to wait for a connection, or for an answer, by default."""
_ANSWER_BYTES_MAX = 1 << 20
_PORT = 9092
_METADATA = 3
_IDS_SINCE = 10
"""The version of the metadata request that reports topic ids: Kafka 2.8."""
_RELEASES = {
    7: "3.3", 8: "3.4", 9: "3.5", 12: "3.6", 15: "3.7", 20: "3.8", 21: "3.9", 22: "4.0", 26: "4.1",
    28: "4.2",
}  # fmt: skip
"""The first `metadata.version` of releases."""
_LAST_KNOWN = 29


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What a broker reports about itself.

    Attributes:
        versions: The newest version of each request that it accepts.
        features: The levels of the features that the cluster has agreed on.
        clock_ahead_s: How many seconds its clock is ahead of ours; None when it does not say.
    """

    versions: Mapping[int, int]
    features: Mapping[str, int]
    clock_ahead_s: float | None = None

    @property
    def tells_topic_ids(self) -> bool:
        """Whether it reports topic ids, which distinguish topics that had one name."""
        return self.versions.get(_METADATA, 0) >= _IDS_SINCE

    @property
    def release(self) -> str:
        """The Kafka release that the cluster speaks; empty when it does not say."""
        level = self.features.get("metadata.version")
        if level is None:
            return ""
        if level > _LAST_KNOWN:
            return "newer than Kafka 4.2"
        known = [name for first, name in _RELEASES.items() if first <= level]
        return f"Kafka {known[-1]}" if known else "Kafka 3"


def addresses(bootstrap_servers: str) -> list[tuple[str, int]]:
    """Returns the hosts and ports of a list in the format that clients take."""
    found = []
    for entry in filter(None, map(str.strip, bootstrap_servers.split(","))):
        host, colon, port = entry.rpartition("://")[2].rpartition(":")
        is_given = bool(colon) and port.isdigit()
        found.append(((host if is_given else entry).strip("[]"), int(port) if is_given else _PORT))
    return found


def reach(host: str, port: int, seconds: float = STEP_S) -> None:
    """Connects to an address, and does nothing else.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, saying what is wrong with the address.
    """
    _connected(host, port, seconds).close()


def probe(host: str, port: int, properties: Mapping[str, str], seconds: float = STEP_S) -> Answer:
    """Asks a broker about itself.

    Args:
        host: Its host.
        port: Its port.
        properties: The client's properties, by librdkafka's names; the security ones are used.
        seconds: How long each step may take.

    Raises:
        SeamlineError: KAFKA_UNAVAILABLE, saying what is there instead.
    """
    protocol = properties.get("security.protocol", "plaintext").lower()
    wants_tls, wants_login = protocol.endswith("ssl"), protocol.startswith("sasl")
    try:
        context = _context(properties) if wants_tls else None
        with _spoken(host, port, context, seconds) as connection:
            answer = _versions(connection)
            return answer if wants_login else _with_clock(connection, answer)
    except (OSError, ValueError, struct.error) as error:
        raise _explained(host, port, error, seconds, wants_tls=wants_tls) from error


def _with_clock(connection: socket.socket, answer: Answer) -> Answer:
    """Adds its time, which KRaft brokers report to clients that may describe the cluster."""
    if answer.versions.get(DESCRIBE_QUORUM, -1) < 1:
        return answer
    body = b"\x02" + text("__cluster_metadata") + b"\x02" + struct.pack(">i", 0) + b"\x00\x00\x00"
    with contextlib.suppress(OSError, ValueError, struct.error):
        asked_at = time.time()
        reader = _asked(connection, request(DESCRIBE_QUORUM, 1, body))
        middle = (asked_at + time.time()) / 2
        told_ms = _time_of_leader(reader)
        if told_ms > 0:
            return dataclasses.replace(answer, clock_ahead_s=told_ms / 1000 - middle)
    return answer


def _time_of_leader(reader: Reader) -> int:
    """Returns when the leader last heard of itself, which is now; 0 when it does not say."""
    reader.tags()
    if reader.int16() != 0:
        return 0
    for _ in range(reader.count()):
        reader.text()
        for _ in range(reader.count()):
            _, error, leader, _, _ = reader.take(">ihiiq")
            if error != 0:
                return 0
            for _ in range(reader.count()):
                replica, _, _, caught_up_ms = reader.take(">iqqq")
                reader.tags()
                if replica == leader:
                    return int(caught_up_ms)
    return 0


def _versions(connection: socket.socket) -> Answer:
    reader = _asked(connection, request(API_VERSIONS, 3, text("seamline") + text("1") + b"\x00"))
    if reader.int16() != 0:  # an older broker, which answers in the oldest form
        found = {}
        for _ in range(reader.take(">i")[0]):
            api, _, newest = reader.take(">hhh")
            found[api] = newest
        return Answer(found, {})
    found = {}
    for _ in range(reader.count()):
        api, _, newest = reader.take(">hhh")
        reader.tags()
        found[api] = newest
    reader.take(">i")
    return Answer(found, _features(reader.tags()))


def _features(tags: Mapping[int, bytes]) -> dict[str, int]:
    """Returns the features that the cluster has agreed on, from an answer's third tag."""
    if 2 not in tags:
        return {}
    reader, found = Reader(tags[2]), {}
    for _ in range(reader.count()):
        name = reader.text()
        found[name] = reader.take(">hh")[0]
        reader.tags()
    return found


def _asked(connection: socket.socket, asked: bytes) -> Reader:
    """Sends a request and returns what follows the header of its answer.

    Raises:
        ValueError: what arrives is not an answer.
    """
    connection.sendall(asked)
    head = _received(connection, 4)
    (length,) = struct.unpack(">i", head)
    if not 4 <= length <= _ANSWER_BYTES_MAX:
        raise ValueError(head.hex())
    reader = Reader(_received(connection, length))
    reader.take(">i")
    return reader


def _received(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        piece = connection.recv(length - len(found))
        if not piece:
            raise ConnectionResetError("it closes the connection")
        found += piece
    return found


# --- Connections ---------------------------------------------------------------------------------


@contextlib.contextmanager
def _spoken(
    host: str, port: int, context: ssl.SSLContext | None, seconds: float
) -> Iterator[socket.socket]:
    with contextlib.closing(_connected(host, port, seconds)) as plain:
        if context is None:
            yield plain
            return
        with context.wrap_socket(plain, server_hostname=host) as secured:
            yield secured


def _connected(host: str, port: int, seconds: float) -> socket.socket:
    where = f"{host}:{port}"
    try:
        return socket.create_connection((host, port), seconds)
    except socket.gaierror as error:
        raise _failure(
            f"the name {host} cannot be resolved: {error.strerror}",
            "Correct the name, or make it known to this machine (DNS, /etc/hosts).",
        ) from error
    except ConnectionRefusedError as error:
        raise _failure(
            f"nothing listens on {where}", "Start the broker, or correct the port."
        ) from error
    except (OSError, UnicodeError, OverflowError) as error:
        timed_out = isinstance(error, TimeoutError)
        cause = f"no connection within {seconds:g} s" if timed_out else str(error)
        raise _failure(
            f"{where} cannot be reached: {cause}", "Check for a firewall, or a wrong address."
        ) from error


def _context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the TLS context that librdkafka's properties ask for."""
    ca = properties.get("ssl.ca.location")
    known: dict[str, Any] = {"cadata": properties.get("ssl.ca.pem")}
    if ca and ca != "probe":
        known = {"cafile": ca}
    try:
        context = ssl.create_default_context(**known)
        own = properties.get("ssl.certificate.location")
        if own:
            password = properties.get("ssl.key.password")
            context.load_cert_chain(own, properties.get("ssl.key.location"), password)
    except (OSError, ValueError) as error:
        raise _failure(
            f"the TLS files cannot be used: {getattr(error, 'strerror', None) or error}",
            "Correct ssl.ca.location, ssl.certificate.location and ssl.key.location.",
        ) from error
    if properties.get("ssl.endpoint.identification.algorithm", "https") == "none":
        context.check_hostname = False
    if properties.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


# --- What is there instead -----------------------------------------------------------------------


def _explained(
    host: str, port: int, error: Exception, seconds: float, *, wants_tls: bool
) -> SeamlineError:
    where = f"{host}:{port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return _failure(
            f"the certificate of {where} is not trusted: {error.verify_message}",
            "Set ssl.ca.location to the certificates that signed it; the name in the address must "
            "be one of the certificate's.",
        )
    if wants_tls and _answers(host, port, seconds):
        return _failure(
            f"{where} speaks Kafka's protocol without TLS",
            "Correct the port, or security.protocol.",
        )
    if not wants_tls and _speaks_tls(host, port, seconds):
        return _failure(
            f"{where} speaks TLS, but this client does not",
            "Set security.protocol to ssl or sasl_ssl, or correct the port.",
        )
    if isinstance(error, TimeoutError):
        message = f"what listens on {where} has not answered as a broker within {seconds:g} s"
        return _failure(message, "It may be something else: correct the port.")
    if isinstance(error, ssl.SSLError) and error.reason == "WRONG_VERSION_NUMBER":
        message = f"what listens on {where} speaks neither TLS nor Kafka's protocol"
        return _failure(message, "Correct the port.")
    if isinstance(error, ssl.SSLError):
        return _failure(
            f"TLS with {where} fails: {error.reason or error}",
            "It may require a client certificate (ssl.certificate.location), or another version.",
        )
    cause = str(error) or type(error).__name__
    with contextlib.suppress(ValueError):
        said = bytes.fromhex(cause)
        cause = "it speaks HTTP" if said == b"HTTP" else f"it sends {said!r}"
    return _failure(f"what listens on {where} is not a broker: {cause}", "Correct the port.")


def _answers(host: str, port: int, seconds: float) -> bool:
    try:
        with _spoken(host, port, None, seconds) as connection:
            _versions(connection)
    except (OSError, ValueError, struct.error, SeamlineError):
        return False
    return True


def _speaks_tls(host: str, port: int, seconds: float) -> bool:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # nothing is sent: this only finds out if it speaks TLS
    try:
        with _spoken(host, port, context, seconds):
            return True
    except ssl.SSLError as error:
        return "ALERT" in str(error.reason)  # such as one that asks for a certificate
    except (OSError, SeamlineError):
        return False


def _failure(message: str, hint: str) -> SeamlineError:
    return SeamlineError(KAFKA_UNAVAILABLE, message, hint=hint)

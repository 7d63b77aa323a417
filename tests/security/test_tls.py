"""Goal: the gateway's own TLS: who is let in by a certificate, and nobody is held up by anybody.

Method: a gateway as a process, real handshakes, certificates made here. Silent, broken and
unencrypted clients are many; what others are answered meanwhile is what counts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import pathlib
import shutil
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest
import urllib3
from click.testing import CliRunner
from cryptography import x509
from support import offline
from support.certificates import Authority, Pair
from support.served import serving
from support.waiting import wait_until

import seamline
from seamline.commands.query import query
from seamline.errors import SeamlineError
from seamline.gateway.access.authentication import Authentication
from seamline.gateway.access.identity import CERTIFICATE, Identity, Presented
from seamline.gateway.access.rights import Principal
from seamline.gateway.config.model import TlsConfig
from seamline.gateway.http.tls import ServerTls

TOKEN = "open sesame"
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()
MORE = f"""
tail: {{follow: false}}
auth: {{tokens: [{{name: ada, sha256: {DIGEST}}}]}}
"""
CROWD = 40


class World:
    """A gateway with TLS, and everybody's certificates."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.authority = Authority(folder, "authority")
        self.stranger = Authority(folder, "stranger")
        self.server = self.authority.sign("gateway")
        self.url = ""

    @property
    def settings(self) -> str:
        """The configuration's lines."""
        return (
            f"http:\n  tls:\n    certificate: {self.server.certificate}\n"
            f"    key: {self.server.key}\n    client_ca: {self.authority.file}\n"
            f"    client_crl: {self.authority.revoked}\n"
            f"    client_name: '(.*)@people'\n{MORE}"
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return "127.0.0.1", int(self.url.rpartition(":")[2])

    def connect(self, pair: Pair | None = None, **options: Any) -> seamline.Connection:
        """A connection of whoever has a certificate."""
        if pair is not None:
            options |= {"certificate": str(pair.certificate), "key": str(pair.key)}
        return seamline.connect(self.url, ca=str(self.authority.file), **options)

    def ask(self, path: str, pair: Pair | None = None, **headers: str) -> int:
        """The status of an answer."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        if pair is not None:
            context.load_cert_chain(pair.certificate, pair.key)
        with urllib3.PoolManager(ssl_context=context, retries=False, timeout=30.0) as pool:
            return pool.request("GET", self.url + path, headers=headers).status

    def shown(self) -> bytes:
        """The certificate that the next connection is shown."""
        context = ssl.create_default_context(cafile=str(self.authority.file))
        with (
            socket.create_connection(self.address, 30) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as wrapped,
        ):
            found = wrapped.getpeercert(binary_form=True)
        assert found is not None
        return found


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("tls"))
    with serving(made.folder, made.settings) as (made.url, _):
        yield made


def who(connection: seamline.Connection) -> str:
    with connection:
        ((found,),) = connection.execute("SELECT current_user").fetchall()
    return str(found)


# --- Who is let in -------------------------------------------------------------------------------


def test_it_says_that_it_speaks_tls(world: World) -> None:
    assert world.url.startswith("https://127.0.0.1:")
    assert who(world.connect(access_token=TOKEN)) == "ada"


def test_a_client_that_does_not_trust_it_says_so(world: World) -> None:
    for options in ({}, {"ca": str(world.stranger.file)}):
        with (
            seamline.connect(world.url, access_token=TOKEN, **options) as connection,
            pytest.raises(seamline.Error, match="certificate verify failed") as caught,
        ):
            connection.execute("SELECT 1")
        assert caught.value.code.name == "GATEWAY_UNAVAILABLE"


def test_a_certificate_says_who_asks(world: World) -> None:
    pair = world.authority.sign("bob@people")
    assert who(world.connect(pair)) == "bob"
    assert who(world.connect(pair, access_token=TOKEN)) == "ada"  # what is stated explicitly counts
    assert world.ask("/iceberg/v1/config", pair) == 200


@pytest.mark.parametrize("names", [(), ("bob",), ("bob@people", "eve@people"), ("@people",)])
def test_a_certificate_that_names_nobody_is_none(world: World, names: tuple[str, ...]) -> None:
    pair = world.authority.sign(*names)
    with world.connect(pair) as connection, pytest.raises(seamline.Error) as caught:
        connection.execute("SELECT 1")
    assert caught.value.code.name == "UNAUTHENTICATED"


def test_a_bad_header_is_not_mended_by_a_certificate(world: World) -> None:
    pair = world.authority.sign("bob@people")
    for header in ("Bearer wrong", "Basic Ym9iOg==", "nothing"):
        assert world.ask("/api/v1/info", pair, Authorization=header) == 401


def test_certificates_of_strangers_and_old_ones_make_no_connection(world: World) -> None:
    for pair in (
        world.stranger.sign("bob@people", file="strange"),
        world.authority.sign("bob@people", days=-1, file="old"),
    ):
        with pytest.raises(urllib3.exceptions.HTTPError):
            world.ask("/healthz", pair)


def test_a_revoked_certificate_lets_nobody_in_and_ends_what_it_has_opened(world: World) -> None:
    kept, revoked = world.authority.sign("bob@people"), world.authority.sign("ann@people")
    with world.connect(revoked) as connection:
        assert connection.execute("SELECT current_user").fetchall() == [("ann",)]
        world.authority.revoke(revoked)
        with pytest.raises(seamline.Error, match="has been revoked") as caught:
            connection.execute("SELECT current_user")  # on the connection that was open
    assert caught.value.code.name == "UNAUTHENTICATED"
    with pytest.raises(urllib3.exceptions.HTTPError):
        world.ask("/healthz", revoked)
    assert world.ask("/api/v1/info", kept) == 200
    world.authority.revoked.write_text("nothing")
    with pytest.raises(urllib3.exceptions.HTTPError):  # what could be read last holds
        world.ask("/healthz", revoked)
    world.authority.revoke(days=-1)
    with pytest.raises(urllib3.exceptions.HTTPError):  # nobody knows who has been revoked since
        world.ask("/healthz", kept)
    assert world.ask("/api/v1/info", Authorization=f"Bearer {TOKEN}") == 200
    world.authority.revoke()
    assert world.ask("/api/v1/info", revoked) == 200


def test_probes_need_no_certificate_and_others_do(world: World) -> None:
    assert [world.ask(path) for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 401]


def test_the_command_line_has_its_own_certificate(world: World) -> None:
    pair = world.authority.sign("bob@people")
    environment = {
        "SEAMLINE_URL": world.url,
        "SEAMLINE_CA": str(world.authority.file),
        "SEAMLINE_CERTIFICATE": str(pair.certificate),
        "SEAMLINE_KEY": str(pair.key),
        "SEAMLINE_TOKEN": "",
    }
    result = CliRunner().invoke(
        query, ["SELECT current_user", "--format", "csv", "--quiet"], env=environment
    )
    assert result.output.split()[1:] == ["bob"], result.output


def test_a_file_that_is_no_certificate_is_named(world: World) -> None:
    for options in ({"ca": "/nowhere"}, {"certificate": str(world.server.key)}):
        with pytest.raises(seamline.Error, match="cannot be used") as caught:
            seamline.connect(world.url, **options)
        assert caught.value.code.name == "INVALID_ARGUMENT"


# --- Who is held up ------------------------------------------------------------------------------

HELLO = b"\x16\x03\x01\x02\x00\x01\x00"
CROWDS = {
    "sends nothing": b"",
    "begins a handshake": HELLO,
    "speaks plain HTTP": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "sends garbage": bytes(range(256)),
}


@pytest.mark.parametrize("kind", CROWDS)
def test_clients_that_are_silent_hold_up_nobody(world: World, kind: str) -> None:
    with contextlib.ExitStack() as crowd:
        for _ in range(CROWD):
            one = crowd.enter_context(socket.create_connection(world.address))
            one.sendall(CROWDS[kind])
        # each has ten seconds: if they held up anybody, these would wait too long for an answer
        assert world.ask("/healthz") == 200
        assert who(world.connect(access_token=TOKEN)) == "ada"


@pytest.mark.prove
def test_a_client_that_begins_and_falls_silent_is_disconnected(world: World) -> None:
    with socket.create_connection(world.address) as one:
        one.sendall(HELLO)
        one.settimeout(60)
        with contextlib.suppress(ConnectionResetError):
            while one.recv(1024):
                pass


# --- Files ---------------------------------------------------------------------------------------


def test_new_files_hold_for_the_next_connection(tmp_path: pathlib.Path) -> None:
    made = World(tmp_path)
    tls = ServerTls(TlsConfig.model_validate(
        {"certificate": str(made.server.certificate), "key": str(made.server.key)}
    ))  # fmt: skip
    first = tls.context()
    assert tls.context() is first
    made.server.certificate.write_text("nothing")
    assert tls.context() is first, "what is broken leaves the last good one"
    made.authority.sign("other", file="gateway")
    second = tls.context()
    assert second is not first
    made.server.key.chmod(0o604)
    assert tls.context() is second


def test_a_running_gateway_takes_a_new_certificate(world: World) -> None:
    before = world.shown()
    other = world.authority.sign("other")
    for name in ("certificate", "key"):
        shutil.copyfile(getattr(other, name), getattr(world.server, name))
    wait_until(lambda: world.shown() != before, what="the new certificate")
    assert world.ask("/healthz") == 200


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"key": None}, "http.tls.key is missing"),
        ({"certificate": None}, "http.tls.certificate is missing"),
        ({"certificate": None, "key": None}, "http.tls.certificate is missing"),
        ({"client_name": ".*"}, "has no group"),
        ({"client_name": "("}, "is not a regular expression"),
        ({"certificate": "/nowhere"}, "No such file"),
        ({"key": "/nowhere"}, "No such file"),
        ({"key": "OTHER"}, "the key does not belong to the certificate"),
        ({"key": "OPEN"}, "can be read by everyone"),
        ({"client_ca": "KEY"}, "client_ca"),
        ({"client_ca": "/nowhere"}, "No such file"),
        ({"client_crl": "KEY"}, "it contains no list"),
        ({"client_crl": "BROKEN"}, "one of its lists cannot be read"),
        ({"client_crl": "/nowhere"}, "No such file"),
        ({"client_ca": None}, "http.tls.client_ca is missing"),
    ],
)
def test_files_that_cannot_be_used_are_refused_at_the_start(
    tmp_path: pathlib.Path, change: dict[str, str | None], said: str
) -> None:
    made = World(tmp_path)
    opened = made.authority.sign("open")
    opened.key.chmod(0o644)
    places = {
        "OTHER": made.authority.sign("other").key,
        "OPEN": opened.key,
        "KEY": made.server.key,
        "BROKEN": tmp_path / "broken.crl",
    }
    places["BROKEN"].write_text("-----BEGIN X509 CRL-----\nMAA=\n-----END X509 CRL-----\n")
    given = {
        "certificate": str(made.server.certificate),
        "key": str(made.server.key),
        "client_ca": str(made.authority.file),
        "client_crl": str(made.authority.revoked),
    }
    for name, value in change.items():
        given[name] = str(places.get(value or "", value)) if value is not None else ""
    lines = "".join(f"    {k}: '{v}'\n" for k, v in given.items() if v)
    with pytest.raises(SeamlineError) as caught:
        ServerTls(offline.load_config(tmp_path, f"http:\n  tls:\n{lines}").http.tls)
    assert caught.value.code.name == "INVALID_CONFIG"
    assert said in caught.value.message


def test_a_certificate_that_was_taken_is_taken_until_it_ends(tmp_path: pathlib.Path) -> None:
    made = World(tmp_path)
    known = Authentication(offline.load_config(tmp_path, made.settings))
    shown = {
        "subject": ((("commonName", "bob@people"),),),
        "notAfter": "Jan  1 00:00:00 2099 GMT",
        "serialNumber": "0A",
    }
    pair = made.authority.sign("bob@people")
    encoded = ssl.PEM_cert_to_DER_cert(pair.certificate.read_text())
    found = known.identify(Presented(certificate=shown, encoded=encoded))
    assert (found.principal, found.method) == (Principal("bob"), CERTIFICATE)
    assert known.again(found) == found
    for wrong in (shown | {"notAfter": "Jan  1 00:00:00 2020 GMT"},):
        with pytest.raises(SeamlineError):
            known.identify(Presented(certificate=wrong, encoded=encoded))
    with pytest.raises(SeamlineError):
        known.again(Identity(found.principal, CERTIFICATE, "0A", expires=1.0))
    made.authority.revoke(made.authority.sign("eve@people"))
    assert known.again(found) == found
    made.authority.revoke(pair)
    serial = f"{x509.load_der_x509_certificate(encoded).serial_number:X}"
    own = dataclasses.replace(found, credential=serial.zfill(len(serial) + len(serial) % 2))
    with pytest.raises(SeamlineError, match="revoked"):
        known.again(own)
    with pytest.raises(SeamlineError, match="revoked"):
        known.identify(
            Presented(certificate=shown | {"serialNumber": own.credential}, encoded=encoded)
        )

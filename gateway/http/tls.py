"""TLS of the gateway: its own certificate, and those of its clients.

The files are watched; a new certificate applies to all later connections. Each handshake runs in
the thread of its connection and has a timeout, so that a silent client does not hold up anybody
else.
"""

from __future__ import annotations

import pathlib
import ssl

from seamline.errors import INVALID_CONFIG, SeamlineError
from seamline.gateway.access import revocations
from seamline.gateway.access.watched import Watched
from seamline.gateway.config.model import TlsConfig

_HANDSHAKE_S_MAX = 10.0
_OTHERS = 0o007


class _ServedSocket(ssl.SSLSocket):
    """A connection that times out if its client falls silent at any point."""

    silent_s_max = 30.0

    def setblocking(self, flag: bool) -> None:
        """Sets blocking mode, which waits for `silent_s_max` seconds at most."""
        self.settimeout(self.silent_s_max if flag else 0.0)

    def do_handshake(self, block: bool = False) -> None:
        """Completes the handshake, or raises TimeoutError."""
        self.settimeout(_HANDSHAKE_S_MAX)
        super().do_handshake(block)
        self.settimeout(self.silent_s_max)


class ServerTls:
    """The TLS settings for accepted connections. Safe to share between threads.

    Args:
        config: The files; a certificate must be among them.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, config: TlsConfig) -> None:
        files = [config.certificate, config.key, config.client_ca, config.client_crl]
        self._watched = Watched(
            [pathlib.Path(file) for file in files if file is not None],
            lambda: _context(config),
            "certificates",
        )

    def context(self) -> ssl.SSLContext:
        """Returns the context for the next connection."""
        return self._watched.get()


def _context(config: TlsConfig) -> ssl.SSLContext:
    assert config.certificate is not None
    assert config.key is not None
    _check_private(pathlib.Path(config.key))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sslsocket_class = _ServedSocket
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(config.certificate, config.key, password=_nothing)
    except (OSError, ValueError) as error:
        raise SeamlineError(
            INVALID_CONFIG,
            f"http.tls.certificate {config.certificate} and http.tls.key {config.key} cannot be "
            f"used: {_cause(error)}",
            hint="Both must be PEM: the certificate with its chain, the key without a passphrase.",
        ) from error
    if config.client_ca is not None:
        try:
            context.load_verify_locations(config.client_ca)
        except (OSError, ValueError) as error:
            raise SeamlineError(
                INVALID_CONFIG,
                f"http.tls.client_ca {config.client_ca} cannot be used: {_cause(error)}",
                hint="It must be PEM: the certificates of those who sign client certificates.",
            ) from error
        context.verify_mode = ssl.CERT_OPTIONAL  # probes have none; others have other proofs
    if config.client_crl is not None:
        revocations.read(pathlib.Path(config.client_crl))  # raises a named error if it is invalid
        context.load_verify_locations(config.client_crl)
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_CHAIN
    return context


def _check_private(key: pathlib.Path) -> None:
    try:
        mode = key.stat().st_mode
    except OSError as error:
        raise SeamlineError(
            INVALID_CONFIG, f"http.tls.key {key} cannot be read: {error.strerror}"
        ) from error
    if mode & _OTHERS:
        raise SeamlineError(
            INVALID_CONFIG,
            f"http.tls.key {key} can be read by everyone on this machine",
            hint=f"chmod o= {key}",
        )


def _nothing() -> str:
    """Returns an empty passphrase, since a server has nobody to ask for one."""
    return ""


def _cause(error: Exception) -> str:
    causes = {"KEY_VALUES_MISMATCH": "the key does not belong to the certificate"}
    reason = getattr(error, "reason", None)
    return causes.get(reason or "") or getattr(error, "strerror", None) or str(error)

"""Client certificates that their issuers have revoked: lists in a file, which is watched.

TLS refuses new connections by the same lists. Here they are checked for each request, so that a
connection that is already open, or a stream, does not outlive the certificate it was opened with.
"""

from __future__ import annotations

import pathlib
import re

from cryptography import x509

from seamline.errors import INVALID_CONFIG, UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.watched import Watched

_LIST = re.compile(rb"-----BEGIN X509 CRL-----.*?-----END X509 CRL-----", re.DOTALL)

Revoked = frozenset[tuple[str, str]]
"""(issuer, serial number as OpenSSL writes it) of each revoked certificate."""


class Revocations:
    """Knows the revoked certificates. Safe to share between threads.

    Args:
        file: The lists, in PEM.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, file: pathlib.Path) -> None:
        self._revoked = Watched([file], lambda: read(file), "revoked certificates")

    def check(self, issuer: str, serial: str) -> None:
        """Checks that a certificate has not been revoked.

        Args:
            issuer: Who signed it, as `issuer_of` returns it.
            serial: Its serial number, in hexadecimal.

        Raises:
            SeamlineError: UNAUTHENTICATED.
        """
        if (issuer, serial) in self._revoked.get():
            raise SeamlineError(UNAUTHENTICATED, "the client's certificate has been revoked")


def issuer_of(certificate: bytes) -> str:
    """Returns who signed a certificate that is given in DER."""
    return x509.load_der_x509_certificate(certificate).issuer.rfc4514_string()


def read(file: pathlib.Path) -> Revoked:
    """Returns what the lists in a file revoke.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    try:
        lists = [x509.load_pem_x509_crl(text) for text in _LIST.findall(file.read_bytes())]
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or "one of its lists cannot be read"
        raise _refused(file, cause) from error
    if not lists:
        raise _refused(file, "it contains no list")
    return frozenset(
        (one.issuer.rfc4514_string(), _hexadecimal(entry.serial_number))
        for one in lists
        for entry in one
    )


def _hexadecimal(serial: int) -> str:
    text = f"{serial:X}"
    return text.zfill(len(text) + len(text) % 2)


def _refused(file: pathlib.Path, cause: str) -> SeamlineError:
    return SeamlineError(
        INVALID_CONFIG,
        f"http.tls.client_crl {file} cannot be used: {cause}",
        hint="It is PEM: one revocation list from each authority in http.tls.client_ca.",
    )

"""Identifies callers by client certificates that TLS has verified."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from typing import Any

from seamline.errors import UNAUTHENTICATED, SeamlineError
from seamline.gateway.access.identity import CERTIFICATE, Identity
from seamline.gateway.access.rights import Principal


def identity(certificate: Mapping[str, Any], pattern: str) -> Identity:
    """Returns the identity that a certificate names.

    Args:
        certificate: The certificate, as `ssl.SSLSocket.getpeercert` returns it.
        pattern: A regular expression for the whole common name; its first group is the principal.

    Raises:
        SeamlineError: UNAUTHENTICATED when it names nobody, or more than one, or has expired.
    """
    names = [
        value
        for part in certificate.get("subject", ())
        for key, value in part
        if key == "commonName"
    ]
    match = re.fullmatch(pattern, names[0]) if len(names) == 1 else None
    if match is None or not match[1]:
        raise SeamlineError(
            UNAUTHENTICATED,
            "the client's certificate names no user that this gateway knows",
            hint="Its subject needs one common name, and http.tls.client_name must match it.",
        )
    expires = float(ssl.cert_time_to_seconds(certificate["notAfter"]))
    named = Identity(
        Principal(match[1]), CERTIFICATE, str(certificate.get("serialNumber", "")), expires
    )
    if named.has_expired:
        raise SeamlineError(UNAUTHENTICATED, "the client's certificate has expired")
    return named

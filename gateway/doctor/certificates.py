"""Checks how long certificates in files are valid."""

from __future__ import annotations

import datetime
import pathlib
import re
from collections.abc import Iterator, Mapping

from seamline.gateway.doctor.findings import Finding, ok, warning, wrong

_SOON = datetime.timedelta(days=14)
CLUSTER_FILES = ("ssl.ca.location", "ssl.certificate.location")
"""Properties of librdkafka that name files of certificates."""


def look(files: Mapping[str, str | None], now: datetime.datetime) -> Iterator[Finding]:
    """Checks the certificates of each file.

    Args:
        files: The file of each setting; None if it is not set.
        now: The time, with a zone.
    """
    for setting, file in files.items():
        if file is not None and pathlib.Path(file).is_file():
            yield from _file(setting, pathlib.Path(file), now)


def _file(setting: str, file: pathlib.Path, now: datetime.datetime) -> Iterator[Finding]:
    from cryptography import x509

    try:
        ends = [
            certificate.not_valid_after_utc
            for certificate in x509.load_pem_x509_certificates(file.read_bytes())
        ]
    except (OSError, ValueError):  # what uses it says what is wrong with it
        return
    # one of many authorities may have ended; a chain ends with the first of its certificates
    end = max(ends) if "ca" in re.split(r"[._]", setting) else min(ends)
    if end <= now:
        yield wrong(f"{setting} {file} expired on {end:%Y-%m-%d}", "Renew the certificate.")
    elif end <= now + _SOON:
        yield warning(
            f"{setting} {file} is valid until {end:%Y-%m-%d} only",
            "Renew the certificate before that day.",
        )
    else:
        yield ok(f"{setting} {file} is valid until {end:%Y-%m-%d}")

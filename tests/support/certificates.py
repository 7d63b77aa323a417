"""Certificates for tests: an authority, and what it signs, as files in PEM."""

from __future__ import annotations

import dataclasses
import datetime
import ipaddress
import pathlib

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


@dataclasses.dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: pathlib.Path
    key: pathlib.Path


class Authority:
    """Signs certificates.

    Args:
        folder: Where the files are put.
        name: Its name.
    """

    def __init__(self, folder: pathlib.Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._builder(self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        self.revoked = folder / f"{name}.crl"
        self.revoke()

    def revoke(self, *pairs: Pair, days: int = 1) -> None:
        """Has its list say that these certificates, and no others, are revoked."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self._name)
            .last_update(now - 2 * _DAY)
            .next_update(now + days * _DAY)
        )
        for pair in pairs:
            revoked = x509.load_pem_x509_certificate(pair.certificate.read_bytes())
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(revoked.serial_number)
                .revocation_date(now - _DAY)
                .build()
            )
        made = builder.sign(self._key, hashes.SHA256())
        self.revoked.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def sign(self, *names: str, days: int = 1, file: str = "") -> Pair:
        """A certificate of 127.0.0.1 and localhost with these common names."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name) for name in names])
        also = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        made = (
            self._builder(subject, key, days)
            .add_extension(x509.SubjectAlternativeName(also), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        stem = file or "-".join(names) or "nobody"
        pair = Pair(self._folder / f"{stem}.crt", self._folder / f"{stem}.key")
        pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        pair.key.touch(0o600)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 2 * _DAY)
            .not_valid_after(now + days * _DAY)
        )

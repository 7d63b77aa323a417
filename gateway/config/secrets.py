"""Which parts of a configuration are secret, and how values are shown without them."""

from __future__ import annotations

import re

HIDDEN = "******"

_NAME = re.compile(
    r"secret|password(?!s$)|passphrase|token|credential|sasl\.jaas|sha256|(access|account|api)[-_.]?key"
    r"|connection-string|\.pem$|keystore\.key",
    re.IGNORECASE,
)
_PARTS = (
    re.compile(r"(?<=://)(?P<kept>[^/@\s:]*:)[^@\s]+(?=@)"),
    re.compile(r"(?P<kept>\b(?:\w*(?:password|secret|token|key|sig))=)[^&;\s]+", re.IGNORECASE),
)
"""What is secret in an address: the password of its user, and parameters."""


def is_secret(name: str) -> bool:
    """Whether the value of a setting or property of that name is secret."""
    return _NAME.search(name) is not None


def masked(text: str) -> str:
    """The string with its secrets removed."""
    for part in _PARTS:
        text = part.sub(rf"\g<kept>{HIDDEN}", text)
    return text

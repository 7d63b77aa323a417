"""Findings of checks: one line each, good or bad, and what to do about it.

ok         as it should be
warning    statements work, but something else does not, or will not
wrong      statements fail, or will fail
skipped    not checked, and why
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from seamline.errors import SeamlineError
from seamline.gateway.config.secrets import HIDDEN, masked

_SECRET_LENGTH_MIN = 4
"""A shorter secret is not masked, as it would match parts of ordinary words."""


class Level(enum.Enum):
    """The severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One finding.

    Attributes:
        level: Its severity.
        text: What was found.
        remedy: What to do about it; empty if there is nothing to do.
        code: The name of the error that led to it, if one did.
    """

    level: Level
    text: str
    remedy: str = ""
    code: str = ""

    def without(self, secrets: Iterable[str]) -> Finding:
        """Returns the finding with all secrets masked."""

        def cut(shown: str) -> str:
            shown = masked(" ".join(shown.split()))
            for secret in secrets:
                shown = shown.replace(secret, HIDDEN)
            return shown

        return dataclasses.replace(self, text=cut(self.text), remedy=cut(self.remedy))

    def to_json(self, about: str) -> dict[str, str | None]:
        """Returns the finding in the form of `--format json`."""
        return {
            "about": about,
            "status": self.level.value,
            "message": self.text,
            "remedy": self.remedy or None,
            "code": self.code or None,
        }


def ok(text: str) -> Finding:
    """Returns a finding that something is as it should be."""
    return Finding(Level.OK, text)


def warning(text: str, remedy: str) -> Finding:
    """Returns a finding that statements work, but something else does not."""
    return Finding(Level.WARNING, text, remedy)


def wrong(text: str, remedy: str) -> Finding:
    """Returns a finding that statements fail, or will fail."""
    return Finding(Level.WRONG, text, remedy)


def skipped(text: str) -> Finding:
    """Returns a finding that something was not checked."""
    return Finding(Level.SKIPPED, text)


def of_error(error: SeamlineError, level: Level = Level.WRONG, about: str = "") -> Finding:
    """Returns a named error as a finding."""
    text = f"{about}: {error.message}" if about else error.message
    return Finding(level, text, error.hint, error.code.name)


def secrets_of(values: Iterable[str]) -> tuple[str, ...]:
    """Returns the secret values that can be searched for in a text, the longest first."""
    return tuple(sorted({v for v in values if len(v) >= _SECRET_LENGTH_MIN}, key=len, reverse=True))


def counts(findings: Iterable[Finding]) -> Mapping[str, int]:
    """Returns the number of findings by the name of their level."""
    levels = [finding.level for finding in findings]
    return {level.value: levels.count(level) for level in Level}

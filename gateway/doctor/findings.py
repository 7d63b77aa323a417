"""What a check finds: one line, good or not, and what to do about it.

ok         as it should be
warning    something does not work, or will not, and statements do
wrong      statements fail, or will
skipped    not looked at, and why
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from seamline.errors import SeamlineError
from seamline.gateway.config.secrets import HIDDEN, masked

_SECRET_LENGTH_MIN = 4
"""A shorter one would be hidden in every other word."""


class Level(enum.Enum):
    """How bad it is."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"
    SKIPPED = "skipped"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One line.

    Attributes:
        level: How bad it is.
        text: What was found.
        remedy: What to do about it; empty where nothing is.
        code: The name of the error it was found by, if it was.
    """

    level: Level
    text: str
    remedy: str = ""
    code: str = ""

    def without(self, secrets: Iterable[str]) -> Finding:
        """The same with nothing secret in it."""

        def cut(shown: str) -> str:
            shown = masked(" ".join(shown.split()))
            for secret in secrets:
                shown = shown.replace(secret, HIDDEN)
            return shown

        return dataclasses.replace(self, text=cut(self.text), remedy=cut(self.remedy))

    def to_json(self, about: str) -> dict[str, str | None]:
        """As `--format json` has it."""
        return {
            "about": about,
            "status": self.level.value,
            "message": self.text,
            "remedy": self.remedy or None,
            "code": self.code or None,
        }


def ok(text: str) -> Finding:
    """It is as it should be."""
    return Finding(Level.OK, text)


def warning(text: str, remedy: str) -> Finding:
    """Statements work, and something else does not."""
    return Finding(Level.WARNING, text, remedy)


def wrong(text: str, remedy: str) -> Finding:
    """Statements fail, or will."""
    return Finding(Level.WRONG, text, remedy)


def skipped(text: str) -> Finding:
    """It was not looked at."""
    return Finding(Level.SKIPPED, text)


def of_error(error: SeamlineError, level: Level = Level.WRONG, about: str = "") -> Finding:
    """What a named error says."""
    text = f"{about}: {error.message}" if about else error.message
    return Finding(level, text, error.hint, error.code.name)


def secrets_of(values: Iterable[str]) -> tuple[str, ...]:
    """The secret values that can be looked for in a text, the longest first."""
    return tuple(sorted({v for v in values if len(v) >= _SECRET_LENGTH_MIN}, key=len, reverse=True))


def counts(findings: Iterable[Finding]) -> Mapping[str, int]:
    """How many there are of each level, by its name."""
    levels = [finding.level for finding in findings]
    return {level.value: levels.count(level) for level in Level}

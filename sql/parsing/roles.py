"""Statements about roles and grants. There are none: rights are in a file of rules.

Tools ask for them anyway. Lists of them are empty, SET ROLE ALL and NONE change nothing, and
whatever would create one is refused.
"""

from __future__ import annotations

from collections.abc import Callable

from seamline.errors import INVALID_ARGUMENT, STATEMENT_NOT_ALLOWED, SeamlineError
from seamline.sql.parsing.statements import SetRole, Show, Statement
from seamline.sql.parsing.words import Words

SHOWN = ("current roles", "role grants", "roles", "grants")
"""What SHOW lists of them."""
_RULES = "Rights are in the file of rules that auth.rules names: see docs/security.md."


def show(words: Words, what: str) -> Show:
    """Reads the rest of SHOW [CURRENT] ROLES, ROLE GRANTS and GRANTS.

    Raises:
        SeamlineError: SYNTAX_ERROR.
    """
    location, name = words.location(), tuple[str, ...]()
    if what == "grants":
        if words.take("ON"):
            words.take("TABLE")
            location, name = words.location(), words.name()
    elif words.take("FROM") or words.take("IN"):
        location, name = words.location(), (words.identifier(),)
    return Show(what, name, location=location)


def set_role(words: Words) -> SetRole:
    """Reads the rest of SET ROLE.

    Raises:
        SeamlineError: SYNTAX_ERROR; INVALID_ARGUMENT for the name of a role.
    """
    location = words.location()
    role = None if words.take("NONE") else words.identifier()
    if role is not None and role.upper() == "ALL":  # which the tokenizer takes for a name
        role = None
    catalog = words.identifier() if words.take("IN") else None
    if role is not None:
        raise SeamlineError(
            INVALID_ARGUMENT,
            f"role {role} does not exist: there are no roles",
            location=location,
            hint=f"SET ROLE ALL and SET ROLE NONE are accepted. {_RULES}",
        )
    return SetRole(catalog, location=location)


def refused(what: str) -> Callable[[Words], Statement]:
    """Returns a reader that refuses a statement which would change roles or grants."""

    def read(words: Words) -> Statement:
        raise SeamlineError(
            STATEMENT_NOT_ALLOWED,
            f"{what} is not allowed: there are neither roles nor grants",
            location=words.location(-len(what.split())),
            hint=_RULES,
        )

    return read

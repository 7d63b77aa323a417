"""Groups of principals, from a file in Trino's format: `group:user,user`, one group per line.

They are added to those that a credential carries. The file is watched.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from seamline.errors import INVALID_CONFIG, SeamlineError, text_of_file
from seamline.gateway.access.rights import Principal
from seamline.gateway.access.watched import Watched


class Groups:
    """Knows the groups of each user. Safe to share between threads.

    Args:
        file: The file; without one there are no further groups.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, file: pathlib.Path | None) -> None:
        self._groups = Watched([file], lambda: _read(file), "groups") if file is not None else None

    def added(self, principal: Principal) -> Principal:
        """Returns the principal with all of its groups."""
        if self._groups is None:
            return principal
        further = self._groups.get().get(principal.name, ())
        return Principal(principal.name, tuple(dict.fromkeys((*principal.groups, *further))))


def _read(file: pathlib.Path) -> Mapping[str, tuple[str, ...]]:
    """Returns the groups of each user.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """
    lines = text_of_file(file, INVALID_CONFIG, f"auth.groups {file}").splitlines()
    groups: dict[str, tuple[str, ...]] = {}
    for number, line in enumerate(lines, 1):
        group, colon, users = (part.strip() for part in line.partition(":"))
        if not line.strip() or group.startswith("#"):
            continue
        if not group or not colon:
            raise SeamlineError(
                INVALID_CONFIG,
                f"auth.groups {file}, line {number} names no group",
                hint="Write each line as group:user,user.",
            )
        for user in filter(None, map(str.strip, users.split(","))):
            groups[user] = (*groups.get(user, ()), group)
    return groups

"""Access control: the rights of principals, from watched files of rules and of groups."""

from __future__ import annotations

import pathlib
import threading

from seamline.connectors.cache import Cache
from seamline.gateway.access import rules
from seamline.gateway.access.groups import Groups
from seamline.gateway.access.rights import Principal, Rights
from seamline.gateway.access.rules import Rules
from seamline.gateway.access.watched import Watched

_REMEMBERED_MAX = 4096


class AccessControl:
    """Knows what principals may do. Safe to share between threads.

    Args:
        file: The rules; without a file, everybody may do everything.
        groups: A file of groups, besides those that credentials carry.

    Raises:
        SeamlineError: INVALID_CONFIG.
    """

    def __init__(self, file: pathlib.Path | None, groups: pathlib.Path | None = None) -> None:
        self._groups = Groups(groups)
        self._watched = (
            Watched([file], lambda: rules.read(file), "access rules") if file is not None else None
        )
        self._lock = threading.Lock()
        self._made_of: Rules | None = None
        self._rights = _remembered()

    def rights_of(self, principal: Principal) -> Rights:
        """Returns a principal's current rights; the same object while the files stay the same."""
        principal = self._groups.added(principal)
        made_of = self._watched.get() if self._watched is not None else None
        with self._lock:
            if made_of is not self._made_of:
                self._made_of, self._rights = made_of, _remembered()
            rights = self._rights
        return rights.get_or_make(principal, lambda: Rights(principal, made_of, self.rights_of))


def _remembered() -> Cache[Principal, Rights]:
    return Cache(_REMEMBERED_MAX)

"""The network faces of the gateway: each protocol that it speaks, declared once.

The HTTP application, the ports that are opened, the addresses that are shown when the gateway
starts and the settings of the ports are all made from this table. A further face is an entry here
and a folder that implements it. Nothing of a face is imported before a gateway offers it.
"""

from __future__ import annotations

import dataclasses
import importlib
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True)
class Face:
    """One of them.

    Attributes:
        protocol: What it speaks.
        made_by: The function that makes it from the gateway's parts, as `module:function`. It
            returns an `HttpFace`, which is mounted on the HTTP application, or a `Listener` for a
            face with a port of its own.
        has_port: Whether it has a port of its own, and so a section of settings with its name.
    """

    protocol: str
    made_by: str
    has_port: bool = False

    def make(self, parts: Any) -> Any:
        """Returns the face of a gateway with these parts."""
        module, _, function = self.made_by.partition(":")
        return getattr(importlib.import_module(module), function)(parts)


FACES = {
    "rest": Face("the REST API", "seamline.gateway.http.rest:face"),
    "console": Face("the web console", "seamline.gateway.http.console:face"),
    "trino": Face("Trino's client protocol", "seamline.gateway.trino.routes:face"),
    "iceberg": Face("the Iceberg REST catalog", "seamline.gateway.iceberg_rest.routes:face"),
    "flight": Face("Arrow Flight SQL", "seamline.gateway.flight.face:face", has_port=True),
}

"""Arrow Flight SQL as a face of the gateway."""

from __future__ import annotations

from seamline.gateway.access.rights import Principal
from seamline.gateway.catalogs import resolution
from seamline.gateway.flight.callers import Callers
from seamline.gateway.flight.routes import Routes
from seamline.gateway.flight.server import FlightServer
from seamline.gateway.http.face_types import Parts


def face(parts: Parts) -> FlightServer:
    """Returns it, for a gateway with these parts.

    Raises:
        SeamlineError: PORT_TAKEN, INVALID_CONFIG.
    """
    config = parts.config
    callers = Callers(
        parts.authentication, parts.secret, config.tokens.age_seconds_max, parts.audit
    )

    def session(caller: Principal, catalog: str | None, schema: str | None) -> resolution.Session:
        return resolution.session(config, catalog, schema, parts.access.rights_of(caller))

    return FlightServer(
        config, Routes(parts.service, callers, config.http.request_bytes_max, session)
    )

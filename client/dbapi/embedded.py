"""A connection to a gateway in the same process: the gateway ends with the connection.

The gateway's packages are loaded on demand, as the extra that has them may not be installed.
"""

from __future__ import annotations

import importlib
from typing import Any

from seamline.dbapi.connection import Connection
from seamline.dbapi.credentials import Credentials
from seamline.dbapi.errors import as_client_error
from seamline.errors import MISSING_EXTRA, SeamlineError

_GATEWAY = "seamline.gateway.app.embedded"


class EmbeddedConnection(Connection):
    """A connection that runs its gateway itself.

    Attributes:
        place: The file of the gateway's configuration.

    Args:
        config_file: The configuration file; if None, it is located as by `seamline serve`.
        follows: Whether tails are kept between statements.
        options: As for `Connection`.

    Raises:
        Error: INVALID_CONFIG, MISSING_EXTRA, and whatever else keeps a gateway from starting.
    """

    def __init__(self, config_file: str | None, *, follows: bool = True, **options: Any) -> None:
        try:
            module = importlib.import_module(_GATEWAY)
            self._gateway = module.EmbeddedGateway(config_file, follows=follows)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in {"", "seamline"}:
                raise
            raise as_client_error(_missing(str(error.name))) from error
        except SeamlineError as error:
            raise as_client_error(error) from error
        self.place: str = self._gateway.place
        super().__init__(self._gateway.url, credentials=Credentials(self._gateway.token), **options)

    def close(self) -> None:
        """Closes the connection, and stops its gateway with everything that runs on it."""
        if not self.closed:
            super().close()
            self._gateway.close()


def _missing(package: str) -> SeamlineError:
    return SeamlineError(
        MISSING_EXTRA,
        f"a gateway in this process needs {package}, which is not installed",
        hint="pip install 'seamline[gateway]'",
    )

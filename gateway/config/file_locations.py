"""Where the configuration file and the folder of the local stack are."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from seamline.errors import INVALID_CONFIG, SeamlineError

FILE_VARIABLE = "SEAMLINE_CONFIG"
HOME_VARIABLE = "SEAMLINE_HOME"
FILE_NAME = "seamline.yaml"


def find_file(explicit: str | None, environment: Mapping[str, str]) -> pathlib.Path | None:
    """Returns the file to read: the named one, else `seamline.yaml` here, else the local stack's.

    Raises:
        SeamlineError: INVALID_CONFIG when the named file does not exist.
    """
    named = explicit or environment.get(FILE_VARIABLE)
    if named:
        path = pathlib.Path(named)
        if not path.is_file():
            raise SeamlineError(
                INVALID_CONFIG, f"there is no configuration file {path}", hint="Correct the path."
            )
        return path
    for path in (pathlib.Path(FILE_NAME), local_state_directory(environment) / FILE_NAME):
        if path.is_file():
            return path
    return None


def local_state_directory(environment: Mapping[str, str]) -> pathlib.Path:
    """Returns where `seamline local` keeps everything by default."""
    named = environment.get(HOME_VARIABLE)
    return pathlib.Path(named) if named else pathlib.Path.home() / ".seamline"

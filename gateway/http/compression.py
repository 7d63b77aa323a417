"""Compresses JSON, text, CSV and the console's files for clients that accept an encoding.

A chunk of Arrow is not compressed as a whole: a client may ask for its buffers to be compressed,
which every reader of Arrow understands.
"""

from __future__ import annotations

import re

import flask
from flask_compress import Compress

_ENCODINGS = ["zstd", "gzip"]
_TYPES = [
    "application/json",
    "application/javascript",
    "application/x-ndjson",
    "text/css",
    "text/csv",
    "text/html",
    "text/javascript",
    "text/plain",
]
_BYTES_MIN = 1024
"""Shorter answers travel in one packet anyway."""
_IF_NONE_MATCH = "HTTP_IF_NONE_MATCH"
_TAGGED = re.compile(f':({"|".join(_ENCODINGS)})"')


def compress(app: flask.Flask) -> None:
    """Has an application compress its answers; to be called before other hooks are added.

    Levels are the fastest ones: an answer should not wait longer for its compression than it would
    for the network.
    """
    app.config.update(
        COMPRESS_MIMETYPES=_TYPES,
        COMPRESS_ALGORITHM=_ENCODINGS,
        COMPRESS_ALGORITHM_STREAMING=_ENCODINGS,
        COMPRESS_MIN_SIZE=_BYTES_MIN,
        COMPRESS_LEVEL=1,
        COMPRESS_ZSTD_LEVEL=1,
        COMPRESS_EVALUATE_CONDITIONAL_REQUEST=False,
    )

    @app.before_request
    def understand() -> None:
        environ = flask.request.environ
        best = flask.request.accept_encodings.best_match(_ENCODINGS)
        # the library takes an encoding of quality 0 for one that is accepted
        environ["HTTP_ACCEPT_ENCODING"] = best or ""
        # and adds the encoding to the tag of an answer, which routes compare with their own
        if _IF_NONE_MATCH in environ:
            environ[_IF_NONE_MATCH] = _TAGGED.sub('"', environ[_IF_NONE_MATCH])

    Compress(app)

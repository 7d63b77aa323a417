"""The web console: a page that uses this gateway's REST API.

    GET    /                        the page
    GET    /console.js, /console.css
    GET    /ui/, /ui/query.html     where tools that know Trino's addresses by heart look for it

Its sources are in `gateway/console`; `make console` builds them into the folder beside this module,
which wheels contain. The page itself holds nothing secret and is served to everybody; its users
authenticate with the requests that it sends.
"""

from __future__ import annotations

import hashlib
import importlib.resources
import urllib.parse

import flask

from seamline.gateway.http.face_types import HttpFace, Parts

ROOT = "/"
_TRINO, _TRINO_QUERY = "/ui/", "/ui/query.html"
_PAGE = "index.html"
_TYPES = {
    _PAGE: "text/html; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "console.css": "text/css; charset=utf-8",
}
_NAMES = ", ".join(repr(name) for name in _TYPES)
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # revalidated each time, and only sent if it changed
}


def face(_parts: Parts) -> HttpFace:
    """Returns the page and its files as a face."""
    return HttpFace(blueprints=(blueprint(),), serves=serves, is_public=True)


def serves(path: str) -> bool:
    """Returns whether a request is for the page, one of its files, or where that is."""
    return path in {ROOT, _TRINO, _TRINO_QUERY} or path.removeprefix(ROOT) in _TYPES


def blueprint() -> flask.Blueprint:
    """Returns the routes of the page and its files."""
    folder = importlib.resources.files("seamline.gateway.http").joinpath("console")
    contents = {name: folder.joinpath(name).read_bytes() for name in _TYPES}
    routes = flask.Blueprint("console", __name__)

    @routes.get(ROOT)
    def page() -> flask.Response:
        return answer(_PAGE)

    @routes.get(f"{ROOT}<any({_NAMES}):name>")
    def file(name: str) -> flask.Response:
        return answer(name)

    @routes.get(_TRINO)
    @routes.get(_TRINO_QUERY)
    def trino() -> flask.Response:
        statement = urllib.parse.unquote_plus(flask.request.query_string.decode("latin-1"))
        fragment = f"#/q/{urllib.parse.quote(statement, safe='')}" if statement else ""
        # relative, as the gateway does not know under which path a proxy serves it
        return flask.Response(status=302, headers={"Location": f"../{fragment}"})

    def answer(name: str) -> flask.Response:
        response = flask.Response(contents[name], content_type=_TYPES[name], headers=_HEADERS)
        response.set_etag(hashlib.sha256(contents[name]).hexdigest()[:32])
        response.make_conditional(flask.request)
        return response

    return routes

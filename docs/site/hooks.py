"""Builds a site from the pages that a code host shows as they are.

Pages outside `docs/` become pages of the site, and a link leads to the page that it leads to in
the repository. A link to something that is not a page, such as a folder of sources, becomes plain
text; a link to nothing ends the build.
"""

from __future__ import annotations

import pathlib
import posixpath
import re

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUTSIDE = {
    "README.md": "readme.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "reporting.md",
    "benchmarks/README.md": "benchmarks.md",
    "examples/README.md": "examples.md",
    "helm/README.md": "helm.md",
}
"""Pages outside of `docs/`, by their path in the repository, and their place in the site."""
_SOURCES = {place: path for path, place in OUTSIDE.items()}
_FENCED = re.compile(r"(^ *```.*?^ *```[^\n]*$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(?P<label>!?\[[^\]]*\])\((?P<target>[^)\s]+)\)")
_CODE_IN_CELL = re.compile(r"(?<!`)`[^`]+`(?!`)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages outside of `docs/`."""
    for path, place in OUTSIDE.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, place, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The page's text with its links as they are in the site."""
    place = page.file.src_uri
    texts_and_blocks = _FENCED.split(markdown)
    texts_and_blocks[::2] = [_linked(place, text) for text in texts_and_blocks[::2]]
    return "".join(texts_and_blocks)


def _linked(place: str, text: str) -> str:
    """A text without fenced blocks as it is in the site."""
    unescaped = "\n".join(map(_unescaped, text.split("\n")))
    return _LINK.sub(lambda found: _link(place, found), unescaped)


def _unescaped(line: str) -> str:
    """A row of a table without backslashes before the bars in code, which a code host wants."""
    if not line.startswith("|"):
        return line
    return _CODE_IN_CELL.sub(lambda found: found[0].replace("\\|", "|"), line)


def _link(place: str, found: re.Match[str]) -> str:
    """A link of a page as it is in the site."""
    target, hash_, anchor = found["target"].partition("#")
    if not target or "://" in target:
        return found[0]
    source = _SOURCES.get(place, f"docs/{place}")
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
    if not (ROOT / path).exists():
        raise PluginError(f"{source} links to {target}, and there is no {path}")
    there = OUTSIDE.get(path) or path.removeprefix("docs/")
    if path not in OUTSIDE and (there == path or not (ROOT / path).is_file()):
        return found["label"].strip("![]")
    relative = posixpath.relpath(there, posixpath.dirname(place) or ".")
    return f"{found['label']}({relative}{hash_}{anchor})"

"""Goal: the tutorial does what it says, as a notebook and as a page.

Method: the notebook's cells run in one process beside a real stack, and must print what is stored
in it; the page is the notebook. `--rewrite` stores what they print, and writes the page.
"""

from __future__ import annotations

import os
import pathlib
import sys

import pytest
from support import notebook
from support.gateway import Gateway
from support.sources import ROOT
from support.stack import Stack

NOTEBOOK = ROOT / "examples" / "tutorial.ipynb"
PAGE = ROOT / "docs" / "tutorial.md"


@pytest.mark.integration
def test_the_cells_print_what_is_stored(
    stack: Stack, gateway: Gateway, request: pytest.FixtureRequest
) -> None:
    tools = pathlib.Path(sys.executable).parent
    environment = {
        **{k: v for k, v in stack.environment.items() if k != "SEAMLINE_SPARK__REMOTE"},
        "PATH": f"{tools}:{os.environ['PATH']}",
        "SEAMLINE_URL": gateway.url,
        "BOOTSTRAP_SERVERS": stack.bootstrap_servers,
    }
    executed = notebook.run(NOTEBOOK, environment)
    if request.config.getoption("--rewrite"):
        notebook.write(executed, NOTEBOOK)
        PAGE.write_text(notebook.page(executed), encoding="utf-8")
    assert executed == notebook.read(NOTEBOOK)


def test_the_page_is_the_notebook() -> None:
    assert PAGE.read_text(encoding="utf-8") == notebook.page(notebook.read(NOTEBOOK))

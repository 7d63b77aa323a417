"""Notebooks without Jupyter: their cells are run in one process, and drawn as a page.

A notebook is the JSON of its format's version 4, of which Markdown and code cells are used, and
outputs of text: what a cell prints.
"""

from __future__ import annotations

import contextlib
import io
import json
import pathlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

Notebook = dict[str, Any]


def read(file: pathlib.Path) -> Notebook:
    """Returns the notebook in a file."""
    notebook: Notebook = json.loads(file.read_text(encoding="utf-8"))
    return notebook


def write(notebook: Notebook, file: pathlib.Path) -> None:
    """Writes a notebook as Jupyter does."""
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    file.write_text(f"{text}\n", encoding="utf-8")


def run(file: pathlib.Path, environment: Mapping[str, str]) -> Notebook:
    """Runs all code cells of a notebook in a process of its own; returns it with their outputs.

    Args:
        file: The notebook.
        environment: The process's variables.

    Raises:
        AssertionError: a cell failed; with what it printed.
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", __file__, file.name],
        cwd=file.parent,
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    notebook: Notebook = json.loads(done.stdout)
    return notebook


def page(notebook: Notebook) -> str:
    """Returns a notebook as Markdown: text, code, and below it what the code prints."""
    return "\n\n".join(_pieces(notebook)) + "\n"


def _pieces(notebook: Notebook) -> Iterator[str]:
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            yield text
            continue
        yield f"```python\n{text}\n```"
        for output in cell["outputs"]:
            yield f"```text\n{''.join(output['text']).rstrip()}\n```"


def _executed(notebook: Notebook) -> Notebook:
    names: dict[str, Any] = {"__name__": "__main__"}
    code_cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code_cells, start=1):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        text = printed.getvalue().splitlines(keepends=True)
        stream = {"name": "stdout", "output_type": "stream", "text": text}
        cell["outputs"] = [stream] if text else []
        cell["execution_count"] = number
    return notebook


if __name__ == "__main__":
    sys.path.insert(0, ".")
    print(json.dumps(_executed(read(pathlib.Path(sys.argv[1])))))

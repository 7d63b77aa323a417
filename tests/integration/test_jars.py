"""Goal: jars are fetched once and whole, whatever happens meanwhile, and a failure has a name.

Method: the real Ivy reads a small repository in a folder of the test, so no network is needed; only
the last test fetches what Spark really gets.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import zipfile

import pytest

from seamline.connectors.jvm.jars import JarSet, cache_directory, fetch, spark_jars
from seamline.errors import JARS_UNAVAILABLE, SeamlineError

pytestmark = pytest.mark.integration

TOOL = JarSet("tool", ("org.example:tool:1.0",), transitive=True)
TOOL_ALONE = JarSet("tool", ("org.example:tool:1.0",), transitive=False)
ROOT = pathlib.Path(__file__).resolve().parents[2]


class Repository:
    """A repository of jars in Maven's layout, and the Ivy settings that lead there."""

    def __init__(self, directory: pathlib.Path) -> None:
        self.directory = directory
        self.settings = directory / "ivysettings.xml"
        directory.mkdir()
        place = f"{directory}/[organisation]/[module]/[revision]"
        self.settings.write_text(
            '<ivysettings><settings defaultResolver="folder"/><resolvers>'
            '<filesystem name="folder" m2compatible="true">'
            f'<ivy pattern="{place}/[module]-[revision].pom"/>'
            f'<artifact pattern="{place}/[artifact]-[revision].[ext]"/>'
            "</filesystem></resolvers></ivysettings>"
        )

    def add(self, module: str, dependency: str | None = None) -> None:
        """Adds version 1.0 of a module of org.example."""
        folder = self.directory / "org" / "example" / module / "1.0"
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / f"{module}-1.0.jar", "w") as jar:
            jar.writestr("name", module)
        needs = (
            "<dependencies><dependency><groupId>org.example</groupId>"
            f"<artifactId>{dependency}</artifactId><version>1.0</version></dependency>"
            "</dependencies>"
            if dependency
            else ""
        )
        (folder / f"{module}-1.0.pom").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId>"
            f"<artifactId>{module}</artifactId><version>1.0</version>{needs}</project>"
        )


@pytest.fixture
def repository(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository with a tool and the library it needs."""
    made = Repository(tmp_path / "repository")
    made.add("library")
    made.add("tool", dependency="library")
    monkeypatch.setenv("SEAMLINE_IVY_SETTINGS", str(made.settings))
    return made


def silent(_: str) -> None:
    """Takes no progress."""


def names(directory: pathlib.Path) -> set[str]:
    """File names in a directory."""
    return {path.name for path in directory.iterdir()}


@pytest.mark.parametrize(
    ("jars", "files"),
    [(TOOL, {"tool-1.0.jar", "library-1.0.jar"}), (TOOL_ALONE, {"tool-1.0.jar"})],
)
def test_jars_are_fetched_and_progress_is_shown(
    repository: Repository, tmp_path: pathlib.Path, jars: JarSet, files: set[str]
) -> None:
    said: list[str] = []
    directory = fetch(jars, tmp_path / "cache", said.append)
    assert names(directory) == files
    assert said[0].startswith("tool: fetching the jars into")
    assert said[-1] == f"tool: {len(files)} of {len(files)} jars, 0 MB"
    assert not list((tmp_path / "cache").glob("*.partial"))


def test_complete_set_needs_no_repository_and_no_java(
    repository: Repository, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fetch(TOOL, tmp_path / "cache", silent)
    shutil.rmtree(repository.directory)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    said: list[str] = []
    assert fetch(TOOL, tmp_path / "cache", said.append) == first
    assert said == []


def test_leftovers_of_an_interrupted_fetch_are_not_taken_for_jars(
    repository: Repository, tmp_path: pathlib.Path
) -> None:
    leftovers = tmp_path / "cache" / f"{TOOL.directory_name}.partial" / "jars"
    leftovers.mkdir(parents=True)
    (leftovers / "tool-1.0.jar").write_text("half of it")
    (leftovers / "other.jar").touch()
    directory = fetch(TOOL, tmp_path / "cache", silent)
    assert names(directory) == {"tool-1.0.jar", "library-1.0.jar"}
    assert zipfile.ZipFile(directory / "tool-1.0.jar").read("name") == b"tool"


def test_failure_is_named_leaves_nothing_and_is_resumed(
    repository: Repository, tmp_path: pathlib.Path
) -> None:
    missing = repository.directory / "org" / "example" / "library"
    missing.rename(tmp_path / "elsewhere")
    with pytest.raises(SeamlineError, match=r"library;1\.0: not found") as caught:
        fetch(TOOL, tmp_path / "cache", silent)
    assert caught.value.code is JARS_UNAVAILABLE
    assert not (tmp_path / "cache" / TOOL.directory_name).exists()
    (tmp_path / "elsewhere").rename(missing)
    assert len(names(fetch(TOOL, tmp_path / "cache", silent))) == 2


def test_cache_that_cannot_be_written_is_named(
    repository: Repository, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "cache").touch()
    with pytest.raises(SeamlineError, match="cannot be used: File exists") as caught:
        fetch(TOOL, tmp_path / "cache", silent)
    assert caught.value.code is JARS_UNAVAILABLE
    assert "SEAMLINE_JARS" in caught.value.hint


def start_fetch(cache: pathlib.Path) -> subprocess.Popen[str]:
    """Fetches the tool in a process of its own, which reports on stderr."""
    script = (
        "import pathlib, sys; from seamline.connectors.jvm.jars import JarSet, fetch;"
        f"print(fetch({TOOL!r}, pathlib.Path(sys.argv[1]),"
        " lambda line: print(line, file=sys.stderr, flush=True)))"
    )
    return subprocess.Popen(
        [sys.executable, "-c", script, str(cache)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_killed_fetch_is_finished_by_the_next(
    repository: Repository, tmp_path: pathlib.Path
) -> None:
    with start_fetch(tmp_path / "cache") as process:
        assert process.stderr is not None
        assert "fetching" in process.stderr.readline()
        process.kill()
    assert len(names(fetch(TOOL, tmp_path / "cache", silent))) == 2


def test_two_processes_at_once_fetch_once(repository: Repository, tmp_path: pathlib.Path) -> None:
    both = [start_fetch(tmp_path / "cache") for _ in range(2)]
    answers = [process.communicate(timeout=120) for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0]
    assert sum("fetching the jars into" in said for _, said in answers) == 1


def test_no_network_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = "127.0.0.1 -Dhttps.proxyPort=1 -Dhttp.proxyHost=127.0.0.1 -Dhttp.proxyPort=1"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Dhttps.proxyHost={nobody}")
    with pytest.raises(SeamlineError, match="Connection refused") as caught:
        fetch(TOOL, tmp_path / "cache", silent)
    assert caught.value.code is JARS_UNAVAILABLE
    assert "network" in caught.value.hint


def test_missing_pyspark_is_an_install_hint(tmp_path: pathlib.Path) -> None:
    package = tmp_path / "path" / "seamline"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    for name in ("connectors", "sql"):
        (package / name).symlink_to(ROOT / name)
    (package / "errors").symlink_to(ROOT / "client" / "errors")
    answer = subprocess.run(  # -S: no site-packages, so no pyspark
        [
            sys.executable,
            "-S",
            "-c",
            "from seamline.connectors.jvm import jars; jars.kafka_jars(print)",
        ],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(package.parent),
            "SEAMLINE_JARS": str(tmp_path / "cache"),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert "MISSING_EXTRA: fetching jars and a local Spark need pyspark" in answer.stderr
    assert "hint: pip install 'seamline[spark]'" in answer.stderr


def test_spark_gets_its_six_jars() -> None:
    found = spark_jars(silent)
    assert [path.is_file() for path in found] == [True] * 6
    assert {path.parent.parent for path in found} == {cache_directory(os.environ)}
    assert len(names(found[0].parent)) == 6

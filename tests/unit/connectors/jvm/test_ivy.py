"""Goal: what Ivy is told, and what is understood of what it prints.

Method: the description is parsed back; outputs are lines as Ivy 2.5 prints them.
"""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from seamline.connectors.jvm.ivy import (
    Progress,
    last_problem,
    module_description,
    proxy_options,
)

NOT_FOUND = """\
:: problems summary ::
:::: WARNINGS
        module not found: org.example#tool;9
    ==== public: tried
      -- artifact org.example#tool;9!tool.jar:
        ::::::::::::::::::::::::::::::::::::::::::::::
        ::          UNRESOLVED DEPENDENCIES         ::
        ::::::::::::::::::::::::::::::::::::::::::::::
        :: org.example#tool;9: not found
        ::::::::::::::::::::::::::::::::::::::::::::::


:: USE VERBOSE OR DEBUG MESSAGE LEVEL FOR MORE DETAILS
"""
NO_NETWORK = NOT_FOUND.replace(
    ":: USE", ":::: ERRORS\n\tServer access error at url u (refused)\n\n:: USE"
)


def test_description_names_every_jar_and_whether_its_dependencies_are_wanted() -> None:
    text = module_description("set", ["a.b:c_2.13:1.0", 'x:y&"z:2'], transitive=False)
    found = ElementTree.fromstring(text).findall("./dependencies/dependency")
    assert [(d.get("org"), d.get("name"), d.get("rev")) for d in found] == [
        ("a.b", "c_2.13", "1.0"),
        ("x", 'y&"z', "2"),
    ]
    assert {d.get("transitive") for d in found} == {"false"}
    assert [d.find("artifact") for d in found] == [None, None]
    text = module_description("set", ["a:b:1:all"], transitive=True)
    (artifact,) = ElementTree.fromstring(text).iter("artifact")
    assert "all" in artifact.attrib.values()


def test_progress_counts_what_was_found_and_what_has_arrived() -> None:
    said: list[str] = []
    progress = Progress("kafka", said.append)
    for number in range(12):
        progress.read(f"\tfound org.example#tool{number};1.0 in public\n")
    progress.read("downloading somewhere ...\n")
    progress.read("...... (46803kB)\n")
    progress.read("\t[SUCCESSFUL ] org.example#tool1;1.0!tool1.jar (598ms)\n")
    assert said == ["kafka: looking up dependencies, 10 found", "kafka: 1 of 12 jars, 0 MB"]


def test_progress_counts_jars_of_an_earlier_try() -> None:
    said: list[str] = []
    progress = Progress("kafka", said.append, done=1)
    for line in ("found a", "found b", "[SUCCESSFUL ] b"):
        progress.read(line)
    assert said == ["kafka: 2 of 2 jars, 0 MB"]


def test_progress_says_how_much_has_been_fetched_and_how_long_the_rest_takes() -> None:
    said: list[str] = []
    now, received = 0.0, 5_000_000
    progress = Progress(
        "kafka",
        said.append,
        received_bytes=lambda: received,
        megabytes=45,
        clock=lambda: now,
    )
    progress.tell()
    for number in range(3):
        progress.read(f"found {number}")
    now = 10.0
    progress.read("downloading somewhere ...")
    now, received = 12.0, 13_000_000
    progress.tell()
    now, received = 18.0, 45_200_000
    progress.read("[SUCCESSFUL ] a")
    assert said == [
        "kafka: 0 of 3 jars, 13 of about 45 MB (29%), 8 s left",
        "kafka: 1 of 3 jars, 45 of about 45 MB (100%)",
    ]


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        (NOT_FOUND, "org.example#tool;9: not found"),
        (NO_NETWORK, "Server access error at url u (refused)"),
        ("Error: Unable to access jarfile x\n", "Error: Unable to access jarfile x"),
        (
            "java.io.IOException: no\n    at java.base/x\n    ... 4 more\n",
            "java.io.IOException: no",
        ),
        ("\n....\n", "Ivy said nothing"),
    ],
)
def test_last_problem_is_the_line_that_says_what_went_wrong(output: str, problem: str) -> None:
    assert last_problem(output.splitlines()) == problem


def test_java_gets_the_proxies_that_other_programs_use() -> None:
    proxies = {"https": "http://proxy.example:3128", "http": "http://other.example", "no": "x"}
    assert proxy_options(proxies) == [
        "-Dhttp.proxyHost=other.example",
        "-Dhttp.proxyPort=8080",
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]
    assert proxy_options({}) == []

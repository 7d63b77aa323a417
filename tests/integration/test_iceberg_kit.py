"""Iceberg's own tests of catalogs, run against ours.

Goal: where clients may write, the Iceberg REST catalog does what Iceberg's library expects of any
catalog, over a catalog in a database and over another REST catalog.
Method: the library's `CatalogTests` and `ViewCatalogTests`, as its compatibility kit runs them.
Each test that does not pass is declared here with its reason; one that begins to pass fails, too.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import subprocess
from collections.abc import Iterator, Mapping

import pytest
from support import offline
from support.gateway import Gateway
from support.rest_catalog import config_of, rest_catalog

from seamline.connectors.jvm.jars import JarSet, cache_directory, fetch
from seamline.connectors.jvm.java import find_java
from seamline.gateway.config.model import IcebergConfig

pytestmark = [pytest.mark.integration, pytest.mark.soak, pytest.mark.timeout(1800)]

LIBRARY = JarSet(
    "iceberg-kit",
    (
        "org.apache.iceberg:iceberg-core:1.11.0",
        "org.apache.iceberg:iceberg-data:1.11.0",
        "org.apache.hadoop:hadoop-client-api:3.4.1",
        "org.apache.hadoop:hadoop-client-runtime:3.4.1",
        "org.junit.platform:junit-platform-console-standalone:1.13.4",
        "org.assertj:assertj-core:3.27.4",
        "org.awaitility:awaitility:4.3.0",
        "org.mockito:mockito-core:4.11.0",
        "org.slf4j:slf4j-nop:2.0.17",
    ),
    transitive=True,
)
TESTS = JarSet(
    "iceberg-kit-tests",
    ("org.apache.iceberg:iceberg-core:1.11.0:tests", "org.apache.iceberg:iceberg-api:1.11.0:tests"),
    transitive=False,
)
PROGRAM = pathlib.Path(offline.__file__).with_name("CompatibilityKit.java")

WORDS = "the exception is the one that the test wants; its message is in our words"
MOVED = "a table that has files does not move away from them"
OUTSIDE = "a table names no file outside of its location"
CACHED = "metadata is cached by its location, so nobody misses a file that has gone"
UNIQUE = "the catalog behind is not configured for the test; the kit leaves this one out, too"
REGISTER = "views are not registered"

TABLES = {
    "createTableInUniqueLocation": UNIQUE,
    "renameTableNamespaceMissing": WORDS,
    "tableCreationWithoutNamespace": WORDS,
    "testBasicCreateTableThatAlreadyExists": WORDS,
    "testCatalogWithCustomMetricsReporter": OUTSIDE,
    "testCompleteCreateOrReplaceTransactionReplace": MOVED,
    "testCompleteReplaceTransaction": MOVED,
    "testConcurrentCreateTransaction": WORDS,
    "testConcurrentReplaceTransactionSchemaConflict": WORDS,
    "testConcurrentReplaceTransactionPartitionSpecConflict": WORDS,
    "testCreateExistingNamespace": WORDS,
    "testCreateOrReplaceTransactionConcurrentCreate": WORDS,
    "testListNonExistingNamespace": WORDS,
    "testLoadMissingTable": WORDS,
    "testLoadNamespaceMetadata": WORDS,
    "testLoadTableWithMissingMetadataFile": CACHED,
    "testLoadTableWithNonExistingNamespace": WORDS,
    "testRegisterExistingTable": WORDS,
    "testRemoveNamespacePropertiesNamespaceDoesNotExist": WORDS,
    "testRenameTableDestinationTableAlreadyExists": WORDS,
    "testRenameTableMissingSourceTable": WORDS,
    "testReplaceTransactionRequiresTableExists": WORDS,
    "testSetNamespacePropertiesNamespaceDoesNotExist": WORDS,
}
IN_A_DATABASE = {name: why for name, why in TABLES.items() if why != UNIQUE} | dict.fromkeys(
    (
        "testUUIDValidation",
        "testUpdateTableAssignmentSpecConflict",
        "testUpdateTableSchemaAssignmentConflict",
        "testUpdateTableSchemaConflict",
        "testUpdateTableSpecConflict",
    ),
    "the exception is the one that the test wants; its message is in PyIceberg's words",
)
VIEWS = {
    "createOrReplaceViewThatAlreadyExistsAsTable": WORDS,
    "createTableThatAlreadyExistsAsView": WORDS,
    "createTableViaTransactionThatAlreadyExistsAsView": WORDS,
    "createViewErrorCases": WORDS,
    "createViewThatAlreadyExists": WORDS,
    "createViewThatAlreadyExistsAsTable": WORDS,
    "loadTableThatAlreadyExistsAsView": WORDS,
    "loadViewThatAlreadyExistsAsTable": WORDS,
    "loadViewWithNonExistingNamespace": WORDS,
    "registerExistingView": REGISTER,
    "registerTableThatAlreadyExistsAsView": WORDS,
    "registerView": REGISTER,
    "registerViewThatAlreadyExistsAsTable": REGISTER,
    "renameTableTargetAlreadyExistsAsView": WORDS,
    "replaceViewConflict": WORDS,
    "replaceViewErrorCases": WORDS,
    "replaceViewVersionConflict": WORDS,
    "updateViewLocationConflict": WORDS,
    "updateViewPropertiesConflict": WORDS,
}


@contextlib.contextmanager
def served(folder: pathlib.Path, behind: str) -> Iterator[str]:
    """The address of our catalog over another one, with room for the files that the tests name."""
    with contextlib.ExitStack() as block:
        config = offline.config(folder)
        lake = config.catalogs["lake"]
        if behind == "rest":
            lake = config_of(block.enter_context(rest_catalog(folder)), folder)
        more = {
            "locations": (*lake.locations, "file:///tmp/ns", "file:///tmp/newdb"),
            "data_locations": ("file:///path/to",),
        }
        changed = {
            "catalogs": {"lake": lake.model_copy(update=more)},
            "iceberg": IcebergConfig(writes=True),
        }
        gateway = block.enter_context(
            contextlib.closing(Gateway(config.model_copy(update=changed)))
        )
        yield f"{gateway.url}/iceberg"


def failures(address: str, what: str) -> dict[str, str]:
    """What each test of the kit that does not pass ends with."""
    cache = cache_directory(os.environ)
    folders = [fetch(jars, cache, print) for jars in (LIBRARY, TESTS)]
    command = [
        str(find_java(os.environ).path),
        "-XX:TieredStopAtLevel=1",
        "-cp",
        os.pathsep.join(f"{folder}/*" for folder in folders),
        str(PROGRAM),
        address,
        what,
    ]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    found = dict(line.split("\t", 1) for line in ran.stdout.splitlines() if "\t" in line)
    assert int(found.pop("passed")) > 25, ran.stderr
    return found


@pytest.mark.parametrize(
    ("behind", "what", "declared"),
    [
        ("sql", "tables", IN_A_DATABASE),
        ("rest", "tables", TABLES),
        ("rest", "views", VIEWS),
    ],
)
def test_the_library_finds_what_it_expects(
    tmp_path: pathlib.Path, behind: str, what: str, declared: Mapping[str, str]
) -> None:
    with served(tmp_path, behind) as address:
        found = failures(address, what)
    assert {name: why for name, why in found.items() if name not in declared} == {}
    assert {name: why for name, why in declared.items() if name not in found} == {}

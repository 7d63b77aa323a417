"""Goal: a table is what its catalog says now, whatever it said of the same location before.

Method: a REST catalog that gives a table other metadata at the location that it gave before, as one
over Hadoop's catalog does for a table that was created again, or that gives no location at all.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support import offline
from support.one_table import answering

from seamline.connectors.config import CatalogConfig
from seamline.connectors.iceberg.tables.catalog import IcebergCatalog
from seamline.errors import SeamlineError

NAME = ("default", "t")


class Answered:
    """A table in a catalog of its own, and the catalog that answers for it."""

    def __init__(self, folder: pathlib.Path, location: str | None) -> None:
        self._world = offline.MemoryWorld(folder)
        self._world.catalog.create_namespace("default")
        self._answer: dict[str, Any] = {"config": {}}
        self.create()
        if location is not None:
            self._answer["metadata-location"] = f"file://{folder}/warehouse/{location}"

    def create(self) -> None:
        """Creates the table, anew if there is one, with a row."""
        self._world.rows("DROP TABLE IF EXISTS t")
        self._world.rows("CREATE TABLE t (id bigint)")
        self.write()

    def write(self) -> None:
        """Adds a row."""
        self._world.rows("INSERT INTO t VALUES 1")
        self._answer["metadata"] = self.metadata().model_dump(mode="json", by_alias=True)

    def metadata(self) -> Any:
        return self._world.catalog.load_table(NAME).metadata

    def point_elsewhere(self) -> None:
        """Names a manifest list that is not the table's."""
        self._answer["metadata"]["snapshots"][-1]["manifest-list"] = "file:///elsewhere/snap.avro"

    def serve(self) -> Any:
        """The catalog, while the block lasts."""
        return answering(self._answer)

    def close(self) -> None:
        self._world.gateway.close()


@pytest.fixture(params=["v2.metadata.json", None], ids=["one location", "no location"])
def answered(request: pytest.FixtureRequest, tmp_path: pathlib.Path) -> Iterator[Answered]:
    made = Answered(tmp_path, request.param)
    yield made
    made.close()


def test_metadata_at_a_location_that_is_known_is_looked_at(
    answered: Answered, tmp_path: pathlib.Path
) -> None:
    with answered.serve() as url:
        own = (f"file://{tmp_path}/warehouse",)
        config = CatalogConfig(
            name="lake", type="rest", uri=url, warehouse="", locations=own, data_locations=own
        )
        catalog = IcebergCatalog(config)
        for change in (answered.write, answered.create):
            state = catalog.load(NAME).state
            assert catalog.load(NAME).state is state, "it is made once"
            change()
            found, wanted = catalog.load(NAME).state, answered.metadata()
            assert found.current_snapshot_id == wanted.current_snapshot_id
            assert found.uuid == str(wanted.table_uuid)
        answered.point_elsewhere()
        with pytest.raises(SeamlineError) as caught:
            catalog.load(NAME)
        assert caught.value.code.name == "LOCATION_NOT_ALLOWED"

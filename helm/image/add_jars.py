"""Puts jars into an image, so that no pod fetches any: those Seamline pins, and those given.

Seamline's own go where it looks for them, `SEAMLINE_JARS`; the given ones into Spark itself, which
loads whatever is there.

    python add_jars.py ORGANISATION:MODULE:VERSION …
"""

from __future__ import annotations

import importlib.util
import pathlib
import shutil
import sys
import tempfile

from seamline.connectors.jvm import jars


def main(coordinates: list[str]) -> None:
    """Fetches and places them.

    Raises:
        SeamlineError: JARS_UNAVAILABLE, …
    """
    jars.spark_jars(print)
    if not coordinates:
        return
    spark = importlib.util.find_spec("pyspark")
    assert spark is not None, "the spark extra is installed"
    assert spark.origin is not None
    given = jars.JarSet("given", tuple(coordinates), transitive=False)
    with tempfile.TemporaryDirectory() as folder:
        found = jars.fetch(given, pathlib.Path(folder), print)
        for name in given.file_names:
            shutil.copy(found / name, pathlib.Path(spark.origin).parent / "jars" / name)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Goal: the first statements of a gateway may reach Spark at the same moment.

Method: a process of its own, which has imported nothing of PySpark, opens sessions on several
threads; the others would overtake the first in the middle of PySpark's imports.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys, threading
from seamline.connectors.spark.sessions import connect

problems = []

def work():
    try:
        connect("sc://127.0.0.1:9", attempts=0).client.close()
    except ImportError as error:
        problems.append(str(error))

class InTheMiddle:
    others = [threading.Thread(target=work) for _ in range(2)]
    overtaken = threading.Event()

    def find_spec(self, name, path=None, target=None):
        if name == "pyspark.sql":
            self.overtaken.set()
        elif "pyspark.serializers" in sys.modules and name.startswith("pyspark.") and self.others:
            others, self.others = self.others, []
            started.extend(others)
            for other in others:
                other.start()
            self.overtaken.wait(0.5)

started = []
sys.meta_path.insert(0, InTheMiddle())
work()
for other in started:
    other.join()
assert started
sys.exit("; ".join(problems) or 0)
"""


@pytest.mark.prove
def test_several_threads_open_the_first_session() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]

"""Java virtual machines of tests: they live for seconds, so what they spend on starting is most."""

from __future__ import annotations

from collections.abc import Mapping

SHORT_LIVED_JAVA: Mapping[str, str] = {
    "JDK_JAVA_OPTIONS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
}
"""Environment of such a machine: one collector thread, and no second, slower compiler."""

"""The engines that examine a run directory."""

from enum import StrEnum


class Engine(StrEnum):
    """The engine that examines a run directory: Spark, or plain Python, without a JVM, for up to `MOST_ROWS` rows."""

    SPARK = "spark"
    PLAIN = "plain"


MOST_ROWS = 2_000_000
"""The rows of all tables of a run, up to which the plain engine examines it."""

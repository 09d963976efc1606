"""The engines that examine a run directory."""

from enum import StrEnum


class Engine(StrEnum):
    """The engine that examines a run directory: Spark, or DuckDB inside this process, without a JVM."""

    SPARK = "spark"
    DUCKDB = "duckdb"

    @classmethod
    def _missing_(cls, value: object) -> None:
        names = " or ".join(engine.value for engine in cls)
        went = f": {cls.DUCKDB} has taken its place" if value == "plain" else ""
        raise ValueError(f"{value!r} is no engine, expected {names}{went}")

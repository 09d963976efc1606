"""The engines that examine a run directory, and the option of commands that chooses one of them."""

from enum import StrEnum

import click


class Engine(StrEnum):
    """The engines: Spark, and DuckDB, which runs inside this process, without a JVM."""

    SPARK = "spark"
    DUCKDB = "duckdb"

    @classmethod
    def _missing_(cls, value: object) -> None:
        """Called by Enum for a value that no engine has."""
        raise ValueError(f"{value!r} is not an engine: expected {' or '.join(cls)}")


ENGINE = click.option("--engine", type=click.Choice([engine.value for engine in Engine]), default=Engine.SPARK.value,
                      show_default=True,
                      help="The engine that examines the tables; both give the same result. duckdb needs no Java, and "
                      "reads local directories.")  # fmt: skip

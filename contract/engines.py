"""The engines that examine a run directory, and the option of commands that chooses one of them."""

from enum import StrEnum

import click


class Engine(StrEnum):
    """The engine that examines a run directory: Spark, or DuckDB inside this process, without a JVM."""

    SPARK = "spark"
    DUCKDB = "duckdb"

    @classmethod
    def _missing_(cls, value: object) -> None:
        names = " or ".join(engine.value for engine in cls)
        went = f": {cls.DUCKDB} has taken its place" if value == "plain" else ""
        raise ValueError(f"{value!r} is no engine, expected {names}{went}")


class _Engines(click.Choice[str]):
    """The engines' names. The error for `plain`, a former engine, says what has taken its place."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return Engine(value).value
        except ValueError as error:
            self.fail(str(error), param, ctx)


ENGINE = click.option("--engine", type=_Engines([engine.value for engine in Engine]), default=Engine.SPARK.value,
                      show_default=True,
                      help="What examines the tables, with the same result. duckdb needs no Java, and reads local "
                      "directories.")  # fmt: skip

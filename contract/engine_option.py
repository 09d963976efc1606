"""The option of commands that chooses an engine."""

import click

from kafka_chaos.contract.engines import Engine


class _Engines(click.Choice[str]):
    """The engines' names; of one that is none, the error says what has taken its place."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return Engine(value).value
        except ValueError as error:
            self.fail(str(error), param, ctx)


ENGINE = click.option("--engine", type=_Engines([engine.value for engine in Engine]), default=Engine.SPARK.value,
                      show_default=True,
                      help="What examines the tables, with the same result. duckdb needs no Java, and reads local "
                      "directories.")  # fmt: skip

"""The option of commands that chooses an engine."""

import click

from kafka_chaos.contract.engines import MOST_ROWS, Engine

ENGINE = click.option("--engine", type=click.Choice([engine.value for engine in Engine]), default=Engine.SPARK.value,
                      show_default=True,
                      help="What examines the tables, with the same result. plain needs no Java, and takes up to "
                      f"{MOST_ROWS:,} rows.")  # fmt: skip

"""`kafka-chaos verify DIR…`: reads run directories, prints a table per run, and exits with the worst verdict.

Guarantee: PySpark is imported only after the arguments were accepted, and never for the engine duckdb. Bad input exits
with 64 and one sentence that names file and column; a missing Java exits with 3. Neither leaves anything half-written.
"""

import json
import sys
from functools import partial

import click

from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.engines import ENGINE, Engine
from kafka_chaos.verification.spark.session import DEFAULT_MASTER, spark_session
from kafka_chaos.verification.telling import print_verdict


@click.command("verify")
@click.argument("run_dirs", metavar="DIR…", nargs=-1, required=True)
@ENGINE
@click.option("--spark-master", metavar="MASTER", show_default=f"{DEFAULT_MASTER}, or spark-submit's",
              help="Spark master to run on.")  # fmt: skip
@click.option("--accept-known", multiple=True, metavar="ID",
              help="Do not fail for a lane whose violations are all explained by this known defect, if the run shows "
              "the defect's preconditions. May be repeated.")  # fmt: skip
@click.option("--no-write", is_flag=True, help="Write neither findings/ nor verdict.json.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run, as in verdict.json.")
@click.option("--quiet", is_flag=True, help="Print nothing. The result is in the exit code and in verdict.json.")
def verify_command(
    run_dirs: tuple[str, ...],
    engine: str,
    spark_master: str | None,
    accept_known: tuple[str, ...],
    no_write: bool,
    as_json: bool,
    quiet: bool,
) -> None:
    """Verify run directories: compare each with its prediction.

    A directory is a local path, or a URI that Spark and PyArrow know (file:, hdfs:, s3: or s3a:, gs: …).

    Writes findings/ and verdict.json into each, unless --no-write says otherwise.

    Exit code: 1 for a violation in any run (apart from --accept-known), else 2 for an unknown one, else 0. 3 if Spark
    can't start, 64 for a run directory that breaks the contract (the other directories are then not verified).
    """
    from kafka_chaos.reference_model.protocol.known_defects import require_known
    from kafka_chaos.verification import verify
    from kafka_chaos.verification.inputs.run_directory import open_run

    require_known(accept_known, "--accept-known")
    judge = partial(verify, engine=engine, write=not no_write, accept_known=accept_known)
    if engine == Engine.DUCKDB:
        if spark_master is not None:
            raise UsageFailure(f"--spark-master is for the engine {Engine.SPARK}, not for {Engine.DUCKDB}")
    else:
        # Directories that break the contract are refused before the session starts.
        rows = sum(open_run(run_dir).rows for run_dir in run_dirs)
        judge = partial(judge, spark=spark_session(master=spark_master, rows=rows))
    outcomes = []
    for run_dir in run_dirs:
        verdict = judge(run_dir)
        outcomes.append(verdict.outcome)
        if as_json:
            click.echo(json.dumps({"run_dir": str(run_dir), **verdict.to_json()}))
        elif not quiet:
            print_verdict(verdict)
    sys.exit(Verdict.gravest(outcomes).exit_code)

"""`verify`: one run directory in, findings and a verdict out.

Guarantee: bad input raises `RunDirectoryError` before anything is written; findings/ and verdict.json appear
whole or not at all, and verdict.json last, so that where it exists the findings beside it are its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import reduce
from typing import TYPE_CHECKING

from kafka_chaos.reference_model.anomalies import Anomaly, Status, Verdict
from kafka_chaos.reference_model.lane import Lane
from kafka_chaos.verification.judge import LaneFacts, judge, not_judged
from kafka_chaos.verification.result import LaneVerdict, Observation, RunVerdict
from kafka_chaos.verification.run_directory import open_run
from kafka_chaos.verification.session import spark_session
from kafka_chaos.verification.storage import RunPath, run_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_chaos.verification.scope import Method


def verify(
    run_dir: str | RunPath, *, spark: SparkSession | None = None, write: bool = True, method: Method | None = None
) -> RunVerdict:
    """Judge the run directory `run_dir` and, unless `write` is false, leave findings/ and verdict.json in it.

    `run_dir`: a local path, or one with a scheme that Hadoop knows.

    `method`: how the tables are gone through (`scope.Method`); default, by what is there; the result is the same.
    `spark`: a session to use; default, the process's own (`spark_session`). Raises `RunDirectoryError` for
    input outside the contract and `SparkUnavailableError` where no session can be had.
    """
    started = time.perf_counter()
    run = open_run(run_path(run_dir, spark))
    predictions = {lane.lane: prediction_of(run.predictions, lane) for lane in run.lanes}
    session = spark or spark_session()
    from kafka_chaos.verification import evidence, findings, output
    from kafka_chaos.verification.survey import survey_of

    with evidence.tuned(session, sum(run.rows.values())):
        survey = survey_of(session, run, evidence.read(session, run), method=method)
        facts = survey.facts
        skipped = {lane.lane: not_judged(run, lane, facts.get(lane.lane, LaneFacts())) for lane in run.lanes}
        with findings.find(session, run, survey, skipped) as cases:
            observed = cases.observations()
            lanes = tuple(
                judge(
                    run,
                    lane,
                    facts.get(lane.lane, LaneFacts()),
                    predictions[lane.lane],
                    _of_lane(observed, lane.lane),
                )
                for lane in run.lanes
            )
            verdict = RunVerdict(
                run_dir=run.path,
                verdict=_merged(lanes),
                lanes=lanes,
                seconds=time.perf_counter() - started,
            )
            if write:
                output.write(run.path, cases.rows if observed else None, verdict)
    return verdict


def _of_lane(observed: Mapping[tuple[str, Anomaly], Observation], lane: str) -> dict[Anomaly, Observation]:
    return {anomaly: seen for (name, anomaly), seen in observed.items() if name == lane}


def _merged(lanes: tuple[LaneVerdict, ...]) -> Verdict:
    return reduce(Verdict.merge, (lane.verdict for lane in lanes), Verdict.CONFORMS)


def prediction_of(predictions: Mapping[str, Mapping[Anomaly, Status]], lane: Lane) -> dict[Anomaly, Status]:
    """The lane's statuses from prediction.json; what it does not say, the model is asked from lanes.json."""
    given = predictions.get(lane.lane, {})
    if all(anomaly in given for anomaly in Anomaly):
        return dict(given)
    from kafka_chaos.reference_model import predict_cached

    computed = predict_cached(lane).anomalies
    return {anomaly: given.get(anomaly) or Status(computed[anomaly].status) for anomaly in Anomaly}

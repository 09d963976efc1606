"""The class `Run`: what all runs share, on whatever cluster, from plan and prediction to verdict and report.

Whatever happens in between, Ctrl-C included, the events say how the run ended, and events.jsonl is closed. What was
written until then can still be verified.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_chaos.contract import events as event_types
from kafka_chaos.contract.command.files import locked, write_whole
from kafka_chaos.contract.command.progress import PARTS_OF_VERIFICATION, progress, reporting_to
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.run_directory import EVENTS_FILE, EXPERIMENT_FILE, MANIFEST_FILE
from kafka_chaos.harness.clients.kinds import fetch_clients
from kafka_chaos.harness.event_bus import EventBus, EventFile, Listener
from kafka_chaos.harness.experiment.file import dump_experiment
from kafka_chaos.harness.experiment.specs import Experiment, PhaseSpec
from kafka_chaos.harness.run.directory import RunDirectoryWriter, new_run_id, versions
from kafka_chaos.harness.workload.history.writer import complete_history
from kafka_chaos.reference_model import Lane, predict_cached
from kafka_chaos.verification.spark.session import require_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kafka_chaos.verification import RunVerdict


@dataclass(frozen=True)
class RunResult:
    """A finished run: its directory, its verdict and the longest gaps without acknowledgement, in seconds by lane."""

    path: Path
    verdict: RunVerdict
    gaps: Mapping[str, float]


class Run:
    """A run in progress, with its directory and its events.

    `replay`: the command that repeats the run, if the experiment's file alone can't. `cancelled` is set when the run
    ends in any way. `accept_known`: known defects that excuse a violation. `report`: whether a report is written.
    """

    def __init__(
        self,
        experiment: Experiment,
        *,
        root: Path,
        listeners: Sequence[Listener],
        kafka_version: str,
        replay: str | None,
        accept_known: Collection[str] = (),
        engine: Engine = Engine.SPARK,
        report: bool = True,
    ) -> None:
        require_engine(engine)
        early_events = EventBus(*listeners)  # There is no run directory yet.
        clients = (lane.client for phase in experiment.phases for lane in phase.lanes)
        fetch_clients(clients, lambda text: early_events.emit(event_types.Step(text=text)))
        self.experiment = experiment
        self.gaps: dict[str, float] = {}
        self.started_at = time.time()
        # Added to a time of the wall clock, it gives the time of the monotonic clock, which histories use.
        self.monotonic_at_epoch_ns = time.monotonic_ns() - time.time_ns()
        self.directory = RunDirectoryWriter(root, new_run_id(experiment.name))
        self.cancelled = threading.Event()
        self._started = time.monotonic()
        self._kafka_version = kafka_version
        self._replay = replay
        self._accept_known = accept_known
        self._engine = engine
        self._has_report = report
        self._predictions: dict[str, dict[str, Any]] = {}
        self._event_file = EventFile(self.directory.path / EVENTS_FILE)
        self.events = EventBus(self._event_file, *listeners)
        self._spark_starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="spark-start")
        self._spark: Future[SparkSession] | None = None

    def carry_out(self, gather_evidence: Callable[[], None], *, collects: tuple[str, ...]) -> RunResult:
        """Plan, `gather_evidence` (histories and the tables that it `collects`), and verify it."""
        verdict: RunVerdict | None = None
        try:
            # `kafka-chaos verify` would take an unlocked directory for the directory of a harness that died.
            with reporting_to(self._tell), self._spark_starter, locked(self.directory.path):
                self._plan(collects)
                gather_evidence()
                complete_history(self.directory.path)
                verdict = self._verify()
        finally:
            self.cancelled.set()
            self.events.emit(
                event_types.RunEnded(
                    verdict=str(verdict.verdict) if verdict is not None else "none",
                    seconds=time.monotonic() - self._started,
                )
            )
            self._event_file.close()
        return RunResult(self.directory.path, verdict, self.gaps)

    def start_spark(self) -> None:
        """Begin to start and warm up Spark in the background; only the first call does so."""
        if self._spark is None and self._engine == Engine.SPARK:
            # A record has a row in each of produced/, consumed/ and log/, and as many in replicas/ as it has replicas.
            rows = sum(
                round(phase.workload.rate * phase.workload.duration) * (3 + lane.replication_factor)
                for phase, _, lane in self.experiment.lanes
            )
            self._spark = self._spark_starter.submit(_start_spark, rows)

    @property
    def spark(self) -> SparkSession:
        """The Spark session; waits until it has started."""
        self.start_spark()
        assert self._spark is not None
        return self._spark.result()

    def predict_without_lockstep(self, phase: PhaseSpec) -> None:
        """Predict a lock-step phase again, for faults at any time, since one of the phase's conditions was not met."""
        for lane in phase.with_added_partitions().lanes:
            self._predictions[lane.lane] = predict_cached(self.experiment.as_lane(phase, lane)).to_json()
        self.directory.write_predictions(self._predictions)

    def say(self, text: str, *, seconds: float | None = None) -> None:
        """Emit the step that the run begins, and how many seconds it takes if that is known."""
        self.events.emit(event_types.Step(text=text, seconds=seconds))

    def _tell(self, done: int, total: int, part: str) -> None:
        self.events.emit(event_types.StepProgress(done=done, total=total, what=part))

    def _plan(self, collects: tuple[str, ...]) -> None:
        """Write down what is going to happen, and predict its outcome."""
        lanes = self.experiment.lanes
        started = {"wall_clock": datetime.now(UTC).isoformat(), "monotonic_at_epoch_ns": self.monotonic_at_epoch_ns}
        recorded = {
            "run_id": self.directory.run_id,
            "versions": versions(self._kafka_version),
            "started": started,
            "manifest": MANIFEST_FILE,
            **({} if self._replay is None else {"replay": self._replay}),
        }
        write_whole(self.directory.path / EXPERIMENT_FILE, dump_experiment(self.experiment, {"recorded": recorded}))
        self.directory.write_lanes(lane for _, _, lane in lanes)
        self.events.emit(
            event_types.RunStarted(
                run_id=self.directory.run_id,
                experiment=self.experiment.name,
                lanes=tuple(lane.lane for _, _, lane in lanes),
                collects=collects,
            )
        )
        self.say("predicting what each lane may lose or duplicate")
        for number, (phase, _, lane) in enumerate(lanes):
            progress(number, len(lanes), lane.lane)
            self._predictions[lane.lane] = prediction_of(phase, lane)
        self.directory.write_predictions(self._predictions)

    def _verify(self) -> RunVerdict:
        """The verdict on a complete run directory; writes the report, too, if there is to be one."""
        from kafka_chaos.verification import verify

        by_spark = self._engine == Engine.SPARK
        self.say(f"verifying with {'Spark' if by_spark else 'DuckDB'}")
        if by_spark:
            progress(0, PARTS_OF_VERIFICATION, "Spark starts")
        spark = self.spark if by_spark else None
        verdict = verify(self.directory.path, engine=self._engine, spark=spark, accept_known=self._accept_known)
        for lane in verdict.lanes:
            self.events.emit(
                event_types.LaneJudged(
                    lane=lane.lane,
                    verdict=str(lane.verdict),
                    reasons=lane.reasons,
                    produced=lane.produced,
                    acknowledged=lane.acknowledged,
                    found={str(anomaly): entry.count for anomaly, entry in lane.observed.items() if entry.count},
                    known_defects=lane.known_defects,
                    accepted_defects=lane.accepted_defects,
                )
            )
        if self._has_report:
            from kafka_chaos.harness.report import write_report

            self.say("writing the report")
            write_report(self.directory.path)
        return verdict


def prediction_of(phase: PhaseSpec, lane: Lane) -> dict[str, Any]:
    """The prediction for a lane of this phase: its entry of prediction.json."""
    lockstep = phase.lockstep_steps()
    if lockstep is not None:
        lane = replace(lane, faults=())  # `faults` may come at any time, but the steps say when each fault comes
    return predict_cached(lane, lockstep=lockstep).to_json()


def _start_spark(rows: int) -> SparkSession:
    """A session for the verification of about `rows` rows, warmed up unless the process has used it before."""
    from kafka_chaos.verification import spark_session
    from kafka_chaos.verification.spark.session import is_started
    from kafka_chaos.verification.warm_up import warm_up

    was_started = is_started()
    session = spark_session(rows=rows)
    if not was_started:
        # A failure costs only time here. If its cause lasts, the verification fails, too.
        with suppress(Exception):
            warm_up(session, rows=rows)
    return session

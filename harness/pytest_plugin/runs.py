"""`kafka_chaos_run`: builds an experiment from a test's arguments, runs it on the test's cluster and verifies it.

It writes an ordinary run directory below `--kafka-chaos-out`. The directory of a failed test is kept.
"""

import random
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError, UsageFailure
from kafka_chaos.contract.engines import Engine
from kafka_chaos.contract.events import Event, RunStarted
from kafka_chaos.contract.lane.metadata import ZOOKEEPER
from kafka_chaos.contract.run_directory import LANES_FILE, REPORT_FILE, VERDICT_FILE
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.experiment.checks.output import check_output
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.file import experiment_of
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.pytest_plugin.result import ChaosRun
from kafka_chaos.harness.pytest_plugin.values import Load, PlannedFault, PlannedLane
from kafka_chaos.harness.report.listeners.by_options import chosen_listeners
from kafka_chaos.harness.report.listeners.terminal import TerminalListener
from kafka_chaos.harness.run.directory import LATEST, point_latest
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.harness.run.shared_cluster import delete_topics, new_topic_name, restore
from kafka_chaos.harness.workload.application.handles import Application, ConsumerHandle, ProducerHandle

_WIDTH = 150  # characters in a line of the captured output
ProducerFunction = Callable[[ProducerHandle], object]
ConsumerFunction = Callable[[ConsumerHandle], object]


@dataclass(eq=False)
class Runs:
    """Makes the runs of one test: the fixture `kafka_chaos_run`, which a test calls once per run."""

    cluster: Cluster
    _: KW_ONLY
    out: Path
    seed: int | None
    nodeid: str
    accept_known: Collection[str] = ()
    engine: str = Engine.SPARK

    def __post_init__(self) -> None:
        self._notes: list[str] = []
        self._run_dirs: list[Path] = []

    def __call__(
        self,
        *,
        lanes: Iterable[PlannedLane | str],
        faults: Iterable[PlannedFault] = (),
        load: Load | None = None,
        producer: ProducerFunction | Mapping[str, ProducerFunction] | None = None,
        consumer: ConsumerFunction | Mapping[str, ConsumerFunction] | None = None,
    ) -> ChaosRun:
        """Load all `lanes` side by side, inject the `faults`, and verify every record against the prediction.

        `producer` and `consumer` are functions of the application under test, which replace the harness's own clients.
        A single function replaces the client in every lane; a mapping replaces it in the lanes that are its keys.
        Every call creates its own topics. A violation raises nothing here: call `assert_conforms` on the result.
        Raises `UsageFailure` for invalid arguments, before anything starts, and `KafkaChaosError` if the run fails.
        """
        __tracebackhide__ = True  # pytest shows the failing line of the test, not of this function
        try:
            return self._run(list(lanes), list(faults), load or Load(), producer, consumer)
        except ClusterFailure as error:
            # The cause may be an exception of the application, whose author needs its traceback.
            raise error.with_traceback(None) from error.__cause__
        except KafkaChaosError as error:
            raise error.with_traceback(None) from None

    def _run(
        self,
        lanes: list[PlannedLane | str],
        faults: list[PlannedFault],
        load: Load,
        producer: ProducerFunction | Mapping[str, ProducerFunction] | None,
        consumer: ConsumerFunction | Mapping[str, ConsumerFunction] | None,
    ) -> ChaosRun:
        experiment = self._experiment(lanes, faults, load)
        names = [lane.lane for lane in experiment.lane_specs]
        producers, consumers = _by_lane("producer", producer, names), _by_lane("consumer", consumer, names)
        applications = {
            name: Application(producer=producers.get(name), consumer=consumers.get(name))
            for name in producers.keys() | consumers.keys()
        }
        check_output(self.out, experiment, option="--kafka-chaos-out")
        restore(self.cluster)
        with TerminalListener(Console(file=sys.stdout, width=_WIDTH)) as listener:
            try:
                result = run_experiment(
                    experiment,
                    root=self.out,
                    listeners=[listener, self._note_run, *chosen_listeners()],
                    cluster=self.cluster,
                    applications=applications,
                    replay=self._pytest_command(experiment),
                    accept_known=self.accept_known,
                    engine=Engine(self.engine),
                    report=self.engine == Engine.SPARK,  # the other engine is for quick runs: a report takes seconds
                )
            finally:
                delete_topics(self.cluster, [topic for lane in experiment.lane_specs for topic in lane.topics])
        self._notes += [
            f"{self.nodeid}: lane {lane.lane}: violation accepted as known: {', '.join(lane.accepted_defects)}"
            for lane in result.verdict.lanes
            if lane.accepted_defects
        ]
        return ChaosRun(result, seed=experiment.seed, replay=self._replay(experiment, result.path, applications))

    def finish(self, *, keep: bool) -> list[str]:
        """Remove the run directories, or `keep` them.

        Returns a line per lane with accepted defects; if kept, also each verified run's report, or else its path.
        """
        if keep:
            return self._notes + [
                f"{self.nodeid}: {path / REPORT_FILE if (path / REPORT_FILE).exists() else path}"
                for path in self._run_dirs
                if (path / VERDICT_FILE).exists()
            ]
        for path in self._run_dirs:
            shutil.rmtree(path, ignore_errors=True)
        latest = self.out / LATEST
        if latest.is_symlink() and not latest.exists():
            remaining = sorted(path.name for path in self.out.iterdir() if (path / LANES_FILE).is_file())
            if remaining:
                point_latest(self.out, remaining[-1])
            else:
                latest.unlink()
        # Other workers may use the folder at the same time.
        with suppress(OSError):
            self.out.rmdir()
        return self._notes

    def _note_run(self, event: Event) -> None:
        if isinstance(event, RunStarted):
            self._run_dirs.append(self.out / event.run_id)

    def _experiment(self, lanes: list[PlannedLane | str], faults: list[PlannedFault], load: Load) -> Experiment:
        planned = [PlannedLane(entry) if isinstance(entry, str) else entry for entry in lanes]
        for index, entry in enumerate(planned):
            if not isinstance(entry, PlannedLane):
                raise UsageFailure(f"lanes[{index}]: {entry!r}: expected lane(NAME, …) or a lane's name")
        for index, fault in enumerate(faults):
            if not isinstance(fault, PlannedFault):
                raise UsageFailure(f"faults[{index}]: {fault!r}: expected kill(…), stop(…), pause(…) or partition(…)")
        if not isinstance(load, Load):
            raise UsageFailure(f"load: {load!r}: expected load(rate=…, seconds=…)")
        spec = self.cluster.spec
        try:
            schedule = [fault.entry(load) for fault in faults]
        except ValueError as error:
            raise UsageFailure(f"faults: {error}") from error
        document: dict[str, Any] = {
            "name": re.sub(r"[^a-zA-Z0-9._-]+", "-", self.nodeid.rpartition("::")[2]).strip("-")[:100] or "test",
            "description": self.nodeid,
            "seed": random.SystemRandom().randrange(2**31) if self.seed is None else self.seed,
            "cluster": {
                **{key: getattr(spec, key) for key in ClusterSpec.model_fields if key != "links"},
                "zookeepers": spec.metadata_servers if spec.metadata_mode == ZOOKEEPER else 0,
            },
            "workload": load.entry(),
            "lanes": [
                {
                    "lane": entry.name,
                    "topic": new_topic_name(entry.name),
                    "replication_factor": min(3, spec.brokers),
                    **entry.settings,
                }
                for entry in planned
            ],
            "schedule": schedule,
        }
        return experiment_of(document, "kafka_chaos_run")

    def _pytest_command(self, experiment: Experiment) -> str:
        return f"pytest {shlex.quote(self.nodeid)} --kafka-chaos-seed {experiment.seed}"

    def _replay(self, experiment: Experiment, path: Path, applications: Mapping[str, Application]) -> str:
        """The command that runs the test again with this seed; without an application, the CLI's command too."""
        pytest_command = self._pytest_command(experiment)
        if applications:
            return pytest_command
        return f"{pytest_command}\n  or: kafka-chaos run {shlex.quote(str(path / 'experiment.yaml'))}"


def _by_lane(argument: str, value: Any, names: list[str]) -> dict[str, Any]:
    """An application's functions by lane, from a mapping, or from one function for all lanes."""
    if value is None:
        return {}
    functions = dict(value) if isinstance(value, Mapping) else dict.fromkeys(names, value)
    for name, function in functions.items():
        if name not in names:
            raise UsageFailure(f"{argument}: there is no lane {name!r}; the lanes are {', '.join(names)}")
        if not callable(function):
            raise UsageFailure(f"{argument}: {function!r}: expected a function that takes a handle")
    return functions

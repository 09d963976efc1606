"""A cluster that several runs use: it is repaired before each run, and the run's topics are deleted after it."""

import contextlib
import itertools
import secrets
from collections.abc import Collection, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.engines import Engine
from kafka_chaos.harness.cluster.cluster import Cluster
from kafka_chaos.harness.event_bus import Listener
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.harness.run.run import RunResult
from kafka_chaos.harness.run.runner import run_experiment
from kafka_chaos.verification.spark.session import require_engine

_numbers = itertools.count(1)


def restore(cluster: Cluster) -> None:
    """Let every container and disk of a cluster work again, whatever state faults have left it in."""
    for node in cluster.nodes:
        node.unpause()
        if node.disk is not None:
            node.disk.repair()
    down = [node for node in cluster.nodes if not node.is_running()]
    if down:
        cluster.start_again(down)


def new_topic_name(name: str) -> str:
    """A topic's name that begins with `name`, and that no other run uses."""
    return f"{name}-{secrets.token_hex(2)}-{next(_numbers)}"


def delete_topics(cluster: Cluster, topics: Sequence[str]) -> None:
    """Delete topics. A broken cluster may refuse, which does no harm: the cluster is removed later."""
    with contextlib.suppress(ClusterFailure):
        cluster.admin().delete_topics(topics)


@dataclass
class ClusterOfRuns:
    """Runs experiments one after the other, on the same cluster as long as it has what they need.

    `name`: the beginning of the clusters' ids. `engine` verifies the runs; with duckdb there are no reports.
    `accept_known`: known defects that excuse a violation.

    Guarantee: a cluster on which a run failed is not used again, and at the end of the context none is left.
    """

    name: str
    engine: Engine = Engine.SPARK
    accept_known: Collection[str] = ()
    _cluster: Cluster | None = None
    _stack: ExitStack = field(default_factory=ExitStack)

    def __enter__(self) -> Self:
        require_engine(self.engine)
        return self

    def __exit__(self, *_: object) -> None:
        self._discard()

    def run(self, experiment: Experiment, *, root: Path, listeners: Sequence[Listener] = ()) -> RunResult:
        """Run an experiment, and delete its topics."""
        layout = experiment.layout
        if self._cluster is not None and not self._cluster.spec.satisfies(layout):
            self._discard()
        if self._cluster is None:
            run_id = f"{self.name}-{secrets.token_hex(4)}"
            self._cluster = self._stack.enter_context(Cluster(layout, run_id=run_id))
        cluster = self._cluster
        try:
            restore(cluster)
            result = run_experiment(
                experiment,
                root=root,
                listeners=listeners,
                cluster=cluster,
                accept_known=self.accept_known,
                engine=self.engine,
                report=self.engine == Engine.SPARK,
            )
        except BaseException:
            self._discard()
            raise
        delete_topics(cluster, [topic for lane in experiment.lane_specs for topic in lane.topics])
        return result

    def _discard(self) -> None:
        self._cluster = None
        self._stack.close()

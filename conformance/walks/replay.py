"""Replays random walks on real brokers: after every step Kafka and the model must agree in every walk of the group.

A group begins on a clean cluster with new topics. At its end everything is healed, in lock step too, every ISR is
full, and its topics are deleted.
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager

from kafka_chaos.conformance.scenario.clusters import ClusterPool, ClusterProfile
from kafka_chaos.conformance.scenario.lockstep import take_together
from kafka_chaos.conformance.scenario.observe import BrokerReads
from kafka_chaos.conformance.scenario.play import ModelOf, Play, Topic, model_of_kafka
from kafka_chaos.conformance.scenario.record import ScenarioRecord
from kafka_chaos.conformance.scenario.runner import conclude
from kafka_chaos.conformance.scenario.stage import Stage
from kafka_chaos.conformance.walks.group import BROKERS, CLIENTS, ClientStep, Group, Settings, WalkStep
from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.broker.client import error_name
from kafka_chaos.harness.cluster.broker.leadership import elect_preferred, reassign

_CONFIGS: Mapping[str, object] = {
    # The shortest that a busy machine keeps without losing a session by itself.
    "zookeeper.session.timeout.ms": 2000,
    # A broker whose leaders nobody can take over asks three times; five seconds apart by default.
    "controlled.shutdown.retry.backoff.ms": 200,
    # What a leader asks of a controller that is frozen is lost for this long, 30 s by default.
    "controller.socket.timeout.ms": 3000,
}
LONG = ClusterProfile(name="walks, long lag time", configs=_CONFIGS)
SHORT = ClusterProfile(
    name="walks, short lag time", lag_is_short=True, configs={**_CONFIGS, "replica.lag.time.max.ms": 2000}
)
_PATIENT: Mapping[str, object] = {
    # The model has no time-outs: a request that waits for the ISR waits for as long as the walk takes.
    "request.timeout.ms": 300_000,
    "socket.timeout.ms": 300_000,
}


def replay(group: Group, pool: ClusterPool, *, model_of: ModelOf = model_of_kafka) -> ScenarioRecord:
    """Run a group: `conforms` if Kafka and every model agreed after every step, `violation` at the first that differs.

    The record has an act for each walk, with every step.
    """
    record = ScenarioRecord(f"walk-{group.seed}", "", str(group))

    def run() -> None:
        with _stages(group, Play(pool, record, model_of=model_of)) as stages:
            for one in (*group.steps, *group.closing):
                _take(one, stages, group.walks)
            for stage, settings in zip(stages, group.walks, strict=True):
                stage.expect("All replicas are in sync", stage.seen.isr, tuple(sorted(settings.replicas)))

    conclude(record, run)
    return record


@contextmanager
def _stages(group: Group, play: Play) -> Iterator[list[Stage]]:
    with play.pool.leased(SHORT if group.lag_is_short else LONG) as lease, ExitStack() as stack:
        controller, reads = lease.settled_controller(), BrokerReads()
        stages = []
        for number, walk in enumerate(group.walks, start=1):
            others = [broker for broker in BROKERS if broker not in walk.replicas]
            topic = Topic(walk.replicas, others, walk.min_insync_replicas, walk.unclean_leader_election)
            name = f"walk {number}"
            stage = play.stage(lease, name, topic, controller=controller, reads=reads)
            stages.append(stack.enter_context(stage))
        stages[0].beside = stages[1:]
        yield stages
        try:
            lease.settled_controller()
            lease.admin.delete_topics([stage.topic for stage in stages])
        except KafkaChaosError as error:
            logging.getLogger(__name__).info("topics of seed %s stay: %s", group.seed, error)


def _take(one: WalkStep, stages: Sequence[Stage], walks: Sequence[Settings]) -> None:
    """Take a step on the brokers and in the model of every walk; the stage of the first takes the faults for all."""
    if one.kind != CLIENTS:
        getattr(stages[0], one.kind)(*one.brokers)
        return
    parts = list(zip(stages, one.clients, walks, strict=True))

    def act() -> None:
        for part in parts:
            _act(*part)

    take_together(str(one), act, [(stage, own.in_model(settings)) for stage, own, settings in parts])


def _act(stage: Stage, own: ClientStep, settings: Settings) -> None:
    """Take a walk's own step on the brokers."""
    if own.record:
        awake = [broker for broker in BROKERS if not any(state.replica(broker).frozen for state in stage.model.states)]
        # A client that asks a frozen broker for the leader would wait for it. Those that are down may be back first.
        stage.clients.send(own.record, **own.sent(settings), configs={**_PATIENT, **stage.reachable(*awake)})
        return
    with stage.ask(_takes_requests(stage)) as asked:
        asked.wait(15)
        if own.order:
            for error in reassign(asked, {(stage.topic, 0): own.order}).values():
                raise ClusterFailure(f"the controller refuses the order {own.order}: {error_name(error)}")
            wait_until(lambda: _replicas(stage) == own.order, f"the replicas to be {own.order}", timeout=30)
        # It is refused where the preferred leader leads or can't: the observation tells.
        elect_preferred(asked, [(stage.topic, 0)])


def _takes_requests(stage: Stage) -> int:
    """The controller, or in KRaft mode any broker that runs: it forwards what it is asked."""
    if stage.lease.profile.metadata_mode == KRAFT:
        return next(broker for broker in BROKERS if all(state.replica(broker).runs for state in stage.model.states))
    controller = stage.lease.metadata.controller()
    if controller is None:
        raise ClusterFailure("there is no controller to elect a leader")
    return controller


def _replicas(stage: Stage) -> tuple[int, ...]:
    """The topic's replicas in their order; none while the cluster does not answer."""
    found = stage.lease.admin.partitions(stage.topic).get(0)
    return () if found is None else found.replicas

"""The model of a cluster that plays a scenario: after each action, every state that the cluster may settle in."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import Any

from kafka_chaos.reference_model.lockstep import brokers, clients, controller, quorum
from kafka_chaos.reference_model.lockstep.environment import ACTIONS
from kafka_chaos.reference_model.lockstep.observation import Comparison, Observation, ReplicaObservation
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState
from kafka_chaos.reference_model.lockstep.stepping import Step, SteppedModel, settled

InternalAction = Callable[[ClusterState, ClusterConfig], Iterator[ClusterState]]
"""What a cluster does by itself, as a function that yields every next state."""

URGENT: tuple[InternalAction, ...] = (
    controller.session_ends,
    controller.controller_takes_over,
    quorum.active_controller_changes,
    quorum.doubted_sessions_end,
    brokers.deliver,
    brokers.truncate,
    brokers.fetch,
    controller.expand_isr,
    controller.shrink_isr,
    controller.complete_reassignment,
    clients.send,
    clients.answer,
)
"""Actions that a cluster takes before it has settled."""
OPTIONAL: tuple[InternalAction, ...] = (brokers.end_parked_fetch, clients.send_astray, clients.send_while_leaderless)
"""Actions that a cluster may or may not have taken by the time it has settled."""

Checkpoints = tuple[int, ...]
"""Each replica's checkpointed high watermark."""
_NO_CHECKPOINT = -1
"""Stands for the checkpoint of a replica in a state without checkpoints."""


@dataclass(slots=True)
class ClusterModel(SteppedModel[ClusterState]):
    """The model of a cluster under a configuration: the states that it may be in now."""

    actions = ACTIONS
    most_states = 200_000
    config: ClusterConfig
    states: frozenset[ClusterState] = field(default_factory=frozenset)

    def __post_init__(self) -> None:
        if not self.states:
            self.states = self.settle([self.config.initial()])

    def after(self, act: Callable[..., ClusterState], state: ClusterState, **arguments: Any) -> Iterable[ClusterState]:
        """The state right after an action."""
        return [act(state, self.config, **arguments)]

    def settle(self, states: Iterable[ClusterState]) -> frozenset[ClusterState]:
        """Every settled state that internal actions lead to.

        Nothing that happens between two steps depends on checkpoints. So states that differ in them alone are searched
        once, and the checkpoints that may have been written meanwhile are added at the end.
        """
        checkpoints: dict[ClusterState, list[Checkpoints]] = {}
        for state in states:
            bare, written = _without_checkpoints(state)
            checkpoints.setdefault(bare, []).append(written)
        reached = {
            _with_checkpoints(state, written)
            for bare, all_written in checkpoints.items()
            for state in settled([bare], self.following, self.most_states)
            for written in all_written
        }
        return frozenset(settled(reached, brokers.checkpoint_meanwhile, self.most_states))

    def observe(self, state: ClusterState) -> Observation:
        """What a complete observation of a cluster in this state shows."""
        replicas = {}
        for replica in state.replicas:
            values = {observed.name: getattr(replica, observed.name) for observed in fields(ReplicaObservation)}
            log = tuple((entry.offset, entry.record, entry.leader_epoch) for entry in replica.log)
            replicas[replica.broker] = ReplicaObservation(**values | {"log": log})
        return Observation(
            replicas=replicas,
            leader=state.partition.leader,
            leader_epoch=state.partition.leader_epoch,
            isr=state.partition.isr,
            controller_epoch=state.controller_epoch,
            controller=state.controller,
            registered=tuple(replica.broker for replica in state.replicas if replica.registered),
            acknowledged=state.acknowledged,
        )

    def following(self, state: ClusterState) -> Iterator[tuple[ClusterState, bool]]:
        """The next states by internal actions, and whether each is urgent.

        An action that commutes with all others is taken alone: whether the others come before or after it, the cluster
        settles in the same states.
        """
        if self.config.kraft and (first := next(brokers.deliver_news_of_isr(state), None)) is not None:
            yield first, True
            return
        for action in URGENT:
            yield from ((after, True) for after in action(state, self.config))
        for action in OPTIONAL:
            yield from ((after, False) for after in action(state, self.config))


def _without_checkpoints(state: ClusterState) -> tuple[ClusterState, Checkpoints]:
    """The state without its checkpoints, and the checkpoints."""
    written = tuple(replica.checkpointed_high_watermark for replica in state.replicas)
    bare = tuple(replica._replace(checkpointed_high_watermark=_NO_CHECKPOINT) for replica in state.replicas)
    return state._replace(replicas=bare), written


def _with_checkpoints(state: ClusterState, written: Checkpoints) -> ClusterState:
    """The state with the checkpoints from before, except those of replicas that were deleted meanwhile."""
    replicas = tuple(
        replica._replace(checkpointed_high_watermark=value)
        if replica.checkpointed_high_watermark == _NO_CHECKPOINT
        else replica
        for replica, value in zip(state.replicas, written, strict=True)
    )
    return state._replace(replicas=replicas)


class ClusterWithGroupModel(ClusterModel):
    """A cluster, and a group that reads from it: an observation must match both.

    `group_field`: the field of an observation that is about the group.
    """

    def __init__(self, cluster: ClusterModel, group: SteppedModel[Any], group_field: str) -> None:
        self.group, self._group_field = group, group_field
        super().__init__(cluster.config, cluster.states)

    def apply(self, step: Step) -> frozenset[ClusterState]:
        """As `ClusterModel.apply`, also for steps of members."""
        if step.name not in self.group.actions:
            return super().apply(step)
        self.group.apply(step)
        return self.states

    def settle(self, states: Iterable[ClusterState]) -> frozenset[ClusterState]:
        """As `ClusterModel.settle`; whatever the group does by itself may have happened meanwhile."""
        self.group.states = self.group.settle(self.group.states)
        return super().settle(states)

    def compare(self, observation: Observation) -> Comparison[ClusterState]:
        """As `ClusterModel.compare`, with the differences of the group after those of the cluster."""
        cluster, group = super().compare(observation), self.group.compare(self._of_group(observation))
        matching = cluster.matching if group.conforms else frozenset[ClusterState]()
        return Comparison(matching, (*cluster.differences, *group.differences))

    def narrow(self, observation: Observation) -> Comparison[ClusterState]:
        """As `ClusterModel.narrow`, also for the group's states."""
        self.group.narrow(self._of_group(observation))
        return super().narrow(observation)

    def _of_group(self, observation: Observation) -> Observation:
        return Observation(**{self._group_field: getattr(observation, self._group_field)})

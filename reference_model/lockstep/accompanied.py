"""A cluster and what reads from it, each a model in lock step with states of its own."""

from collections.abc import Iterable
from typing import Any

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel
from kafka_chaos.reference_model.lockstep.observation.cluster import Comparison, Observation
from kafka_chaos.reference_model.lockstep.state import ClusterState
from kafka_chaos.reference_model.lockstep.stepping import Step, SteppedModel


class AccompaniedModel(ClusterModel):
    """A cluster, and a group that reads from it: an observation must match both.

    `part`: the field of an observation that is about the group.
    """

    def __init__(self, cluster: ClusterModel, group: SteppedModel[Any], part: str) -> None:
        self.group, self._part = group, part
        super().__init__(cluster.config, cluster.states)

    def apply(self, step: Step) -> frozenset[ClusterState]:
        """As `ClusterModel.apply`; steps of members too."""
        if step.name not in self.group.actions:
            return super().apply(step)
        self.group.apply(step)
        return self.states

    def settle(self, states: Iterable[ClusterState]) -> frozenset[ClusterState]:
        """As `ClusterModel.settle`; whatever the group does by itself may have happened meanwhile."""
        self.group.states = self.group.settle(self.group.states)
        return super().settle(states)

    def compare(self, seen: Observation) -> Comparison[ClusterState]:
        """As `ClusterModel.compare`, with the differences of the group after those of the cluster."""
        cluster, group = super().compare(seen), self.group.compare(self._of_group(seen))
        matching = cluster.matching if group.conforms else frozenset[ClusterState]()
        return Comparison(matching, (*cluster.differences, *group.differences))

    def narrow(self, seen: Observation) -> Comparison[ClusterState]:
        """As `ClusterModel.narrow`, the group's states too."""
        self.group.narrow(self._of_group(seen))
        return super().narrow(seen)

    def _of_group(self, seen: Observation) -> Observation:
        return Observation(**{self._part: getattr(seen, self._part)})

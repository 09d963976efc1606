"""Hypothesis drives the model of the cluster itself: random schedules, and properties that hold for all of them."""

from cluster_invariants import CLUSTER_INVARIANTS
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, step
from kafka_chaos.reference_model.lockstep.observation.cluster import observe_state
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState

BROKERS = (1, 2, 3)
brokers = st.sampled_from(BROKERS)


class ClusterMachine(RuleBasedStateMachine):
    """Clean elections, idempotent producers, acks=all: whatever happens, no acknowledged record is lost."""

    @initialize(minimum=st.integers(1, 2), short_lag=st.booleans())
    def set_up(self, minimum: int, short_lag: bool) -> None:
        self.sent = 0
        self.model = ClusterModel(ClusterConfig(controller=2, min_insync_replicas=minimum, lag_is_short=short_lag))

    @property
    def state(self) -> ClusterState:
        (state,) = self.model.states
        return state

    def take(self, name: str, **arguments: object) -> None:
        """Take a step and keep one of the states it may settle in, as an observation would."""
        self.model.apply(step(name, **arguments))
        seen = min(self.model.states, key=repr)
        assert self.model.narrow(observe_state(seen)).conforms
        self.model.states = frozenset({seen})

    @rule()
    @precondition(lambda self: self.sent < 5)
    def produce(self) -> None:
        self.take("produce", record=f"m{self.sent}", idempotent=True)
        self.sent += 1

    @rule(broker=brokers)
    def kill_or_start(self, broker: int) -> None:
        replica = self.state.replica(broker)
        if not replica.up:
            self.take("start", broker=broker)
        elif replica.runs:
            self.take("kill", broker=broker)

    @rule(broker=brokers)
    def stop(self, broker: int) -> None:
        if self.state.replica(broker).runs:
            self.take("stop", broker=broker)

    @rule(broker=brokers)
    def pause_or_thaw(self, broker: int) -> None:
        replica = self.state.replica(broker)
        if replica.up and replica.frozen:
            self.take("thaw", broker=broker)
        elif replica.up:
            self.take("pause", broker=broker)

    @rule(broker=brokers)
    def expire_session(self, broker: int) -> None:
        replica = self.state.replica(broker)
        if replica.up and replica.registered:
            self.take("expire_session", broker=broker)

    @rule(channel=st.sampled_from(["replication", "control"]), sender=brokers, receiver=brokers)
    def cut_or_heal(self, channel: str, sender: int, receiver: int) -> None:
        if sender != receiver:
            is_cut = self.state.is_cut(channel, sender, receiver)
            self.take("heal" if is_cut else "cut", channel=channel, source=sender, target=receiver)

    @rule()
    def expire_lag(self) -> None:
        self.take("expire_lag")

    @rule(order=st.permutations(BROKERS))
    def move_leader(self, order: list[int]) -> None:
        if self.state.partition.target or not self.state.controller:
            # A reassignment that waits for a broker that is down blocks the next; without a controller there is none.
            return
        self.take("reassign", replicas=tuple(order))
        self.take("elect_preferred")

    @invariant()
    def invariants_hold(self) -> None:
        if hasattr(self, "model"):
            for name, holds in CLUSTER_INVARIANTS.items():
                assert holds(self.state, self.model.config), name

    @invariant()
    def replicas_are_sound(self) -> None:
        if hasattr(self, "model"):
            for replica in self.state.replicas:
                offsets = [entry.offset for entry in replica.log]
                assert offsets == list(range(replica.log_start, replica.log_end))
                assert replica.checkpointed_high_watermark >= 0
                assert replica.high_watermark <= replica.log_end
                assert [e for e, _ in replica.epochs] == sorted({e for e, _ in replica.epochs})


FEW = settings(max_examples=20, stateful_step_count=25)
TestCluster = ClusterMachine.TestCase
TestCluster.settings = FEW

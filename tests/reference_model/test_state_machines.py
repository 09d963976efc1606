"""Hypothesis drives the models themselves: random schedules, and properties that hold for all of them."""

from cluster_invariants import CLUSTER_INVARIANTS
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.lane.state import ELIGIBLE, OK, canonical, initial_state, leader_index, record_of
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lockstep.cluster_model import ClusterModel, step
from kafka_chaos.reference_model.lockstep.observation.cluster import observe_state
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.predict.prediction import predict

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


class LaneMachine(RuleBasedStateMachine):
    """A random walk through a lane stays within what was predicted, and within the outer bound."""

    @initialize(
        acks=st.sampled_from(["0", "1", "all"]),
        unclean=st.booleans(),
        in_flight=st.sampled_from([1, 5]),
        fault=st.sampled_from(["kill", "stop", "pause", "partition", "power-loss", "session-expiry"]),
        elr=st.booleans(),
    )
    def set_up(self, acks: str, unclean: bool, in_flight: int, fault: str, elr: bool) -> None:
        self.lane = Lane(
            lane="walked",
            acks=acks,
            unclean_leader_election=unclean,
            max_in_flight=in_flight,
            faults=(fault,),
            replication_factor=2,
            min_insync_replicas=2 if elr else 1,
            kafka_version="4.3.1",
            elr=elr,
        )
        self.permitted = {
            anomaly for anomaly, answer in predict(self.lane).anomalies.items() if answer.status != "forbidden"
        }
        self.state = canonical(initial_state(self.lane), self.lane)

    @rule(choice=st.integers(0, 10_000))
    def step(self, choice: int) -> None:
        reached = list(steps(self.state, self.lane, None))
        if reached:
            self.state = canonical(reached[choice % len(reached)][1], self.lane)

    @invariant()
    def nothing_unpredicted_is_shown(self) -> None:
        if hasattr(self, "state"):
            assert shown(ending(self.state), CHECKS) <= self.permitted

    @invariant()
    def at_most_one_leader_serves(self) -> None:
        if hasattr(self, "state"):
            assert sum(index >= 0 for index in [leader_index(self.state.replicas)]) <= 1

    @invariant()
    def somebody_may_lead_again(self) -> None:
        if hasattr(self, "state"):
            assert any(replica.in_isr or (self.lane.elr and replica.standing) for replica in self.state.replicas)

    @invariant()
    def eligible_replicas_hold_what_was_acknowledged(self) -> None:
        if hasattr(self, "state") and self.lane.acks == "all":
            acknowledged = {number for number, record in enumerate(self.state.records) if record.status == OK}
            for replica in self.state.replicas:
                if replica.standing & ELIGIBLE:
                    assert not replica.in_isr
                    assert acknowledged <= {record_of(value) for value in replica.log}


FEW = settings(max_examples=40, stateful_step_count=25)
TestCluster = ClusterMachine.TestCase
TestCluster.settings = FEW
TestLane = LaneMachine.TestCase
TestLane.settings = settings(FEW, max_examples=25, stateful_step_count=20)

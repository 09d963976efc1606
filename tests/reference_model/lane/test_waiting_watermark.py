"""Since Kafka 3.7 (KAFKA-15583) a high watermark waits while the ISR is below min.insync.replicas.

The lane knows this only of what consumers read: they read nothing new meanwhile. Here the lane also keeps the
watermark itself, which a follower must reach to join the ISR, and is searched in full. Both forms show the same
anomalies.

The watermark of the last leader is kept where a lock-step phase would count its steps (`position`), which nothing
else uses without one. A new leader may begin with it: consumers have read up to there already.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kafka_chaos.contract.lane.fault_kinds import FAULT_KINDS
from kafka_chaos.reference_model import Anomaly, Lane, predict
from kafka_chaos.reference_model.lane import effects as lane_effects
from kafka_chaos.reference_model.lane import exchanges as lane_protocol
from kafka_chaos.reference_model.lane import faults as lane_faults
from kafka_chaos.reference_model.lane import replication as lane_replication
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.lane.state import (
    LaneReplica,
    LaneState,
    canonical,
    high_watermark,
    initial_state,
    isr_size,
    leader_index,
    read_bit,
    record_of,
)
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.machine import shown
from kafka_chaos.reference_model.search import Budget, Search, breadth_first

KILLS = ("kill", "kill")
Successors = Callable[[LaneState], Iterator[LaneState]]

LANES = {
    "acks0": Lane(lane="waiting", acks="0", min_insync_replicas=2),
    "acks1": Lane(lane="waiting", acks="1", min_insync_replicas=2),
    "all": Lane(lane="waiting", acks="all", min_insync_replicas=2),
    "idempotent": Lane(lane="waiting", acks="all", idempotence=True, min_insync_replicas=2),
}
LANES |= {f"{name}, eligible": replace(lane, kafka_version="4.3.1") for name, lane in LANES.items()}


@contextmanager
def waiting_machine(lane: Lane) -> Iterator[Successors]:
    """The lane's machine with a high watermark that waits; what it shows to consumers waits with it."""
    known = 0

    def watermark(replicas: tuple[LaneReplica, ...]) -> int:
        before = min(known, len(replicas[leader_index(replicas)].log))
        return before if isr_size(replicas) < lane.min_insync_replicas else max(before, high_watermark(replicas))

    def observe(state: LaneState, _: Lane = lane) -> LaneState:
        """Reads of a leader alone: a zombie that is its own ISR waits, and shows what it had shown before."""
        leader = leader_index(state.replicas)
        if leader < 0:
            return state
        visible, reads = watermark(state.replicas), state.reads
        for offset in range(visible):
            reads |= read_bit(record_of(state.replicas[leader].log[offset]), offset)
        return state._replace(reads=reads, position=visible)

    def successors(state: LaneState) -> Iterator[LaneState]:
        nonlocal known
        known = state.position
        yield from [canonical(observe(after), lane) for _, after in steps(state, lane, None)]

    assert lane.min_insync_replicas > 1
    with pytest.MonkeyPatch.context() as patch:
        for module in (lane_effects, lane_faults, lane_protocol, lane_replication):
            patch.setattr(module, "observe", observe)
        for module in (lane_protocol, lane_replication):
            patch.setattr(module, "high_watermark", watermark)
        yield successors


def search_in_full(lane: Lane, successors: Successors) -> Search[LaneState]:
    search = breadth_first(canonical(initial_state(lane), lane), successors, lambda _: False, Budget(3_000_000))
    assert search.complete
    return search


def shown_while_waiting(lane: Lane) -> set[Anomaly]:
    with waiting_machine(lane) as successors:
        search = search_in_full(lane, successors)
    return {anomaly for state in search.parents for anomaly in shown(ending(state), CHECKS)}


def predicted(lane: Lane) -> set[Anomaly]:
    """The search's findings; an axiom's answer is in none of its states."""
    found = predict(lane)
    return {anomaly for anomaly in CHECKS if found.status(anomaly) != "forbidden"}


CONFIGURATIONS = [
    pytest.param(name, unclean, id=f"{name}{'-unclean' * unclean}", marks=[] if unclean else [pytest.mark.slow])
    for name in LANES
    for unclean in (False, True)
]
OF_READS = {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}
EVERY_MIX = [pytest.param(faults, id="+".join(faults)) for faults in (*((kind,) for kind in FAULT_KINDS), KILLS)]


@pytest.mark.slow
@pytest.mark.parametrize("faults", EVERY_MIX)
@pytest.mark.parametrize(("name", "unclean"), CONFIGURATIONS)
def test_three_replicas_show_the_same_in_either_form(name: str, unclean: bool, faults: tuple[str, ...]) -> None:
    lane = replace(LANES[name], faults=faults, unclean_leader_election=unclean)
    assert shown_while_waiting(lane) == predicted(lane)


@pytest.mark.parametrize(
    ("fault", "replicas"),
    [
        ("power-loss", 2),
        *(pytest.param(*fewer, marks=pytest.mark.slow) for fewer in (("kill", 2), ("kill", 3), ("power-loss", 3))),
    ],
)
@pytest.mark.parametrize(("name", "unclean"), CONFIGURATIONS)
def test_where_every_replica_has_to_be_in_sync_either_form_shows_the_same(
    name: str, unclean: bool, fault: str, replicas: int
) -> None:
    lane = replace(
        LANES[name],
        replication_factor=replicas,
        min_insync_replicas=replicas,
        faults=(fault,),
        unclean_leader_election=unclean,
    )
    assert shown_while_waiting(lane) == predicted(lane)


@pytest.mark.parametrize("name", LANES)
def test_what_all_replicas_hold_survives_an_unclean_election(name: str) -> None:
    """A consumer reads only what every replica has; with a smaller minimum it reads what the leader alone has."""
    waiting = replace(LANES[name], replication_factor=2, faults=("kill",), unclean_leader_election=True)
    assert not predicted(waiting) & OF_READS - ({Anomaly.INCONSISTENT_OFFSET} if name.startswith("acks1") else set())
    assert Anomaly.TRUNCATED_READ in predicted(replace(waiting, min_insync_replicas=1))


def test_a_record_of_acks_1_is_read_before_another_replica_has_it_only_below_the_minimum() -> None:
    lane = replace(LANES["acks1"], replication_factor=2)

    def is_read_early(state: LaneState) -> bool:
        return bool(state.reads) and min(len(replica.log) for replica in state.replicas) == 0

    def reached(lane: Lane) -> Search[LaneState]:
        return search_in_full(lane, lambda state: (canonical(after, lane) for _, after in steps(state, lane, None)))

    assert any(map(is_read_early, reached(replace(lane, min_insync_replicas=1)).parents))
    assert not any(map(is_read_early, reached(lane).parents))

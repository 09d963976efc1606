"""Since Kafka 3.7 (KAFKA-15583) a high watermark waits while the ISR is below min.insync.replicas; the lane's does not.

Here the lane's machine is run in that form as well, searched in full, with no bound consulted: three replicas of which
two have to be in sync show what `predict` says, and where all of them have to be, no more than that.

The watermark of the last leader is kept where a course would count its steps (`position`), which nothing else looks at
without one. A new leader may begin with it: consumers have read up to there already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from kafka_chaos.reference_model import (
    Anomaly,
    Lane,
    lane_effects,
    lane_faults,
    lane_idempotence,
    lane_protocol,
    lane_replication,
    predict,
)
from kafka_chaos.reference_model.lane import FAULT_KINDS
from kafka_chaos.reference_model.lane_anomalies import ending, shown
from kafka_chaos.reference_model.lane_state import (
    LaneState,
    Replica,
    canonical,
    entry_record,
    high_watermark,
    initial_state,
    isr_size,
    leader_index,
    read_bit,
)
from kafka_chaos.reference_model.lane_steps import steps
from kafka_chaos.reference_model.search import Search, breadth_first

KILLS = ("kill", "kill")
Successors = Callable[[LaneState], Iterator[LaneState]]

LANES = {
    "acks0": Lane(lane="waiting", acks="0", min_insync_replicas=2),
    "acks1": Lane(lane="waiting", acks="1", min_insync_replicas=2),
    "all": Lane(lane="waiting", acks="all", min_insync_replicas=2),
    "idempotent": Lane(lane="waiting", acks="all", idempotence=True, min_insync_replicas=2),
}


@contextmanager
def waiting_machine(lane: Lane) -> Iterator[Successors]:
    """The lane's machine with a high watermark that waits; what it shows to consumers waits with it."""
    known = 0

    def watermark(replicas: tuple[Replica, ...]) -> int:
        before = min(known, len(replicas[leader_index(replicas)].log))
        return before if isr_size(replicas) < lane.min_insync_replicas else max(before, high_watermark(replicas))

    def observe(state: LaneState) -> LaneState:
        """Reads of a leader alone: a zombie that is its own ISR waits, and shows what it had shown before."""
        leader = leader_index(state.replicas)
        if leader < 0:
            return state
        visible, reads = watermark(state.replicas), state.reads
        for offset in range(visible):
            reads |= read_bit(entry_record(state.replicas[leader].log[offset]), offset)
        return state._replace(reads=reads, position=visible)

    def successors(state: LaneState) -> Iterator[LaneState]:
        nonlocal known
        known = state.position
        yield from [canonical(observe(after), lane) for _, after in steps(state, lane, None)]

    assert lane.min_insync_replicas > 1
    with pytest.MonkeyPatch.context() as patch:
        for module in (lane_effects, lane_faults, lane_idempotence, lane_protocol, lane_replication):
            patch.setattr(module, "observe", observe)
        for module in (lane_protocol, lane_replication):
            patch.setattr(module, "high_watermark", watermark)
        yield successors


def search_in_full(lane: Lane, successors: Successors) -> Search[LaneState]:
    search = breadth_first(canonical(initial_state(lane), lane), successors, lambda _: False, max_states=3_000_000)
    assert search.complete
    return search


def shown_while_waiting(lane: Lane) -> set[Anomaly]:
    with waiting_machine(lane) as successors:
        search = search_in_full(lane, successors)
    return {anomaly for state in search.parents for anomaly in shown(ending(state))}


def predicted(lane: Lane) -> set[Anomaly]:
    return {anomaly for anomaly, answer in predict(lane).anomalies.items() if answer.status != "forbidden"}


CONFIGURATIONS = [
    pytest.param(name, unclean, id=f"{name}{'-unclean' * unclean}") for name in LANES for unclean in (False, True)
]
OF_READS = {Anomaly.TRUNCATED_READ, Anomaly.INCONSISTENT_OFFSET}
EVERY_MIX = [pytest.param(faults, id="+".join(faults)) for faults in (*((kind,) for kind in FAULT_KINDS), KILLS)]


@pytest.mark.parametrize(("name", "unclean"), [("acks1", True), ("idempotent", False), ("idempotent", True)])
def test_under_a_kill_three_replicas_show_the_same_in_either_form(name: str, unclean: bool) -> None:
    lane = replace(LANES[name], faults=("kill",), unclean_leader_election=unclean)
    assert shown_while_waiting(lane) == predicted(lane)


@pytest.mark.slow
@pytest.mark.parametrize("faults", EVERY_MIX)
@pytest.mark.parametrize(("name", "unclean"), CONFIGURATIONS)
def test_three_replicas_show_the_same_in_either_form(name: str, unclean: bool, faults: tuple[str, ...]) -> None:
    lane = replace(LANES[name], faults=faults, unclean_leader_election=unclean)
    assert shown_while_waiting(lane) == predicted(lane)


@pytest.mark.parametrize(
    "replicas",
    [2, pytest.param(3, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("fault", ["kill", "power-loss"])
@pytest.mark.parametrize(("name", "unclean"), CONFIGURATIONS)
def test_where_every_replica_has_to_be_in_sync_the_lane_permits_more_reads_and_no_less(
    name: str, unclean: bool, fault: str, replicas: int
) -> None:
    """With min.insync.replicas as large as the replication factor a consumer reads what all replicas have, so that
    no unclean election takes it back; the lane, whose watermark does not wait, lets it read what the leader alone
    has. What it forbids beside that is the same, and with clean elections there is no difference."""
    lane = replace(
        LANES[name],
        replication_factor=replicas,
        min_insync_replicas=replicas,
        faults=(fault,),
        unclean_leader_election=unclean,
    )
    exact, coarse = shown_while_waiting(lane), predicted(lane)
    assert exact <= coarse
    assert coarse - exact <= (OF_READS if unclean else set())


def test_a_watermark_that_waits_shows_less() -> None:
    """It is another form: with an ISR of one, a record of acks=1 is read before another replica has it, or not."""
    lane = replace(LANES["acks1"], replication_factor=2)

    def is_read_early(state: LaneState) -> bool:
        return bool(state.reads) and min(len(replica.log) for replica in state.replicas) == 0

    plain = search_in_full(lane, lambda state: (canonical(after, lane) for _, after in steps(state, lane, None)))
    assert any(map(is_read_early, plain.parents))
    with waiting_machine(lane) as successors:
        assert not any(map(is_read_early, search_in_full(lane, successors).parents))

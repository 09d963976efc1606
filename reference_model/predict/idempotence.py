"""How a broker checks an idempotent producer's sequence numbers (KIP-98), and how the producer continues after a gap.

Left out: the cache of the last five batches (a broker here knows all that its log holds), producer state that
expires.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_chaos.contract.lanes import Lane
from kafka_chaos.reference_model.predict.effects import Action, Step, observe
from kafka_chaos.reference_model.predict.state import (
    NOWHERE,
    OK,
    OUTDATED,
    LaneState,
    entry,
    with_log,
    with_replica,
)


def check_sequence(state: LaneState, broker: int, index: int) -> tuple[int | None, LaneState]:
    """The broker's check of an idempotent producer's sequence number against its own log.

    Returns the offset of the batch it already holds, `NOWHERE` for a batch in sequence, None for a gap. After a
    gap behind an acknowledged batch the producer renews its producer epoch (KIP-360), and its next batch is in
    sequence anywhere; every replica holds earlier batches of this producer, so a missing one shows.
    """
    held = [value & 3 for value in state.replicas[broker].log]
    wanted = index | (state.producer_epoch << 1 if index else 0)
    if wanted in held:
        return held.index(wanted), state
    if index == 0:
        fenced = any(value & 2 for value in held)
        return (None if fenced else NOWHERE), state
    if state.producer_epoch == 1 or 0 in held:
        return NOWHERE, state
    if state.records[0].status == OK:
        return None, renew_producer_epoch(state)
    return None, state


def renew_producer_epoch(state: LaneState) -> LaneState:
    """The producer starts a new producer epoch; the second record's requests in sockets are from the old one."""
    replicas = tuple(
        replica._replace(abandoned=replica.abandoned & ~2 | OUTDATED) if replica.abandoned & 2 else replica
        for replica in state.replicas
    )
    return state._replace(producer_epoch=1, replicas=replicas)


def append_outdated(state: LaneState, lane: Lane, broker: int) -> Iterator[Step]:
    """A broker reads the second record's request from before the producer renewed its producer epoch: it is
    refused unless it is in sequence there and the broker has seen nothing of the new epoch."""
    replica = state.replicas[broker]
    held = [value & 3 for value in replica.log]
    if 0 in held and 1 not in held and 3 not in held:
        log = (*replica.log, entry(1, replica.leader_epoch, 0))
        state = with_replica(state, broker, with_log(replica, log))
        yield Action("append", broker, 1, str(len(log) - 1), from_socket=True), observe(state, lane)
    else:
        yield Action("out_of_order_sequence", broker, 1, from_socket=True), state

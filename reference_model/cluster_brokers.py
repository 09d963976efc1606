"""What brokers do among themselves and with producers: one action, one function.

Sources: Kafka's documentation ("Replication"), KIP-101, KIP-279, KIP-320 (leader epochs), KIP-497 (ISR changes
through the controller), KIP-98 (sequence numbers), the producer and topic configurations. An action is urgent
(it happens without anyone waiting for anything) or optional (it may happen or not: a parked fetch that ends, a
high-watermark checkpoint).

Left out: batches of more than one record, the time a leader waits before it drops a follower
(`ClusterConfig.lag_is_short`), UpdateMetadata, consumer groups, transactions.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafka_chaos.reference_model.cluster_producers import (
    after_append,
    after_truncation,
    cached_offset,
    last_sequence,
)
from kafka_chaos.reference_model.cluster_state import (
    CLIENT,
    CLIENTS,
    FOLLOWER,
    HELD,
    LEADER,
    REPLICATION,
    ClusterConfig,
    ClusterState,
    Entry,
    Pending,
    Produce,
    Replica,
)
from kafka_chaos.reference_model.protocols.rules import EPOCH_SHIFT

Outcome = tuple[str, ClusterState]
"""A sentence for what happened, and the state after it."""


def reachable_leader(state: ClusterState, config: ClusterConfig, follower: Replica) -> Replica | None:
    """The leader that would answer this follower's requests, if it is there and takes them."""
    if not follower.runs or follower.role != FOLLOWER or not follower.leader:
        return None
    leader = state.replica(follower.leader)
    cut = any(state.is_cut(channel, follower.broker, leader.broker) for channel in (REPLICATION, HELD))
    if cut or not leader.runs or leader.role != LEADER:
        return None
    if config.protocol.fenced and leader.leader_epoch != follower.leader_epoch:
        return None
    return leader


def truncate(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A new follower finds its truncation offset; urgent. By the high watermark alone it needs no answer."""
    for follower in state.replicas:
        if not follower.runs or not follower.truncating:
            continue
        leader = reachable_leader(state, config, follower)
        if leader is None and config.protocol.asks_leader:
            continue
        mine, theirs = epochs_of(follower), epochs_of(leader) if leader else ()
        watermark = follower.high_watermark - follower.log_start
        end = follower.log_start + config.protocol.truncation(mine, watermark, theirs)
        kept = truncated(follower, end)._replace(truncating=False)
        said = f", dropping {gone(follower, end)}" if end < follower.log_end else ""
        yield f"Broker {follower.broker} truncates to offset {end}{said}.", state.with_replica(kept)


def epochs_of(replica: Replica) -> tuple[int, ...]:
    """The log as the truncation rules take it: one epoch per offset, gaps filled from the epoch file."""
    starts = sorted(replica.epochs, key=lambda line: line[1])
    epochs = []
    for offset in range(replica.log_start, replica.log_end):
        known = [epoch for epoch, start in starts if start <= offset]
        epochs.append((known[-1] if known else 0) << EPOCH_SHIFT)
    return tuple(epochs)


def truncated(replica: Replica, end: int) -> Replica:
    """The replica with its log, epoch file and high watermark cut at an offset."""
    return replica._replace(
        log=tuple(entry for entry in replica.log if entry.offset < end),
        log_end=end,
        epochs=tuple(line for line in replica.epochs if line[1] < end),
        high_watermark=min(replica.high_watermark, end),
        flushed=min(replica.flushed, end),
        active_segment=min(replica.active_segment, end),
        producers=after_truncation(replica.producers, replica.log, end),
    )


def gone(replica: Replica, end: int) -> str:
    """The names of the records at or past an offset."""
    return ", ".join(entry.record for entry in replica.log if entry.offset >= end)


def fetch(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A follower fetches from its log end; urgent while that brings news to either side.

    The request tells the leader how far the follower is, nothing else does. With nothing to return it is parked.
    """
    yield from _answer_held(state)
    for follower in state.replicas:
        leader = reachable_leader(state, config, follower)
        if leader is None or follower.truncating:
            continue
        known = dict(leader.fetched).get(follower.broker)
        behind = follower.log_end < leader.log_end
        if known == follower.log_end and follower.parked and not behind:
            continue
        if not behind:
            told = told_offset(leader, follower)
            parked = follower._replace(parked=True)
            after = state.with_replica(parked).with_replica(advanced(told, config))
            sentence = f"Broker {leader.broker} learns that broker {follower.broker} holds all below "
            yield f"{sentence}{follower.log_end}.", after
            continue
        told = leader if follower.parked else advanced(told_offset(leader, follower), config)
        start = max(follower.log_end, leader.log_start)
        new = tuple(entry for entry in leader.log if entry.offset >= start)
        received = append(follower, new, leader.log_end)
        received = received._replace(high_watermark=min(told.high_watermark, leader.log_end), parked=False)
        names = ", ".join(entry.record for entry in new)
        sentence = f"Broker {follower.broker} fetches {names or 'nothing'} from broker {leader.broker}."
        yield sentence, state.with_replica(told).with_replica(received)


def _answer_held(state: ClusterState) -> Iterator[Outcome]:
    """A parked fetch is answered though its follower's next one is held: the leader learns nothing by that."""
    for follower in state.replicas:
        if not follower.runs or not follower.parked or not state.is_cut(HELD, follower.broker, follower.leader):
            continue
        leader = state.replica(follower.leader)
        if leader.runs and leader.role == LEADER and follower.log_end < leader.log_end:
            new = tuple(entry for entry in leader.log if entry.offset >= follower.log_end)
            received = append(follower, new, leader.log_end)
            received = received._replace(high_watermark=min(leader.high_watermark, leader.log_end), parked=False)
            names = ", ".join(entry.record for entry in new)
            sentence = f"Broker {follower.broker} is sent {names}, which it had asked for."
            yield sentence, state.with_replica(received)


def append(replica: Replica, entries: tuple[Entry, ...], log_end: int) -> Replica:
    """The replica with entries appended as the leader has them, and a line in the epoch file per new epoch."""
    epochs = replica.epochs
    for entry in entries:
        if not epochs or epochs[-1][0] < entry.leader_epoch:
            epochs = (*epochs, (entry.leader_epoch, entry.offset))
    producers = after_append(replica.producers, entries)
    return replica._replace(log=replica.log + entries, log_end=log_end, epochs=epochs, producers=producers)


def told_offset(leader: Replica, follower: Replica) -> Replica:
    """The leader after a fetch request from this follower's log end."""
    known = dict(leader.fetched)
    known[follower.broker] = follower.log_end
    return leader._replace(fetched=tuple(sorted(known.items())))


def advanced(leader: Replica, config: ClusterConfig) -> Replica:
    """The leader with the high watermark its ISR's known log ends allow.

    Since Kafka 3.7 (KAFKA-15583) it stays where it is while the ISR is smaller than min.insync.replicas.
    """
    if config.watermark_waits_for_min_isr and len(leader.isr) < config.effective_min_isr:
        return leader
    known = dict(leader.fetched)
    ends = [known.get(broker, -1) for broker in leader.isr if broker != leader.broker]
    return leader._replace(high_watermark=max(leader.high_watermark, min([leader.log_end, *ends])))


def end_parked_fetch(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A parked fetch ends (`replica.fetch.wait.max.ms`) and brings the leader's high watermark; optional."""
    for follower in state.replicas:
        leader = reachable_leader(state, config, follower)
        if leader is None or not follower.parked or follower.log_end != leader.log_end:
            continue
        watermark = min(leader.high_watermark, follower.log_end)
        if watermark > follower.high_watermark:
            sentence = f"Broker {follower.broker} learns the high watermark {watermark}."
            yield sentence, state.with_replica(follower._replace(high_watermark=watermark))


def checkpoint_high_watermark(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A broker writes its high watermark to replication-offset-checkpoint; optional."""
    for replica in state.replicas:
        if replica.runs and replica.role in (LEADER, FOLLOWER):
            written = replica._replace(checkpointed_high_watermark=replica.high_watermark)
            if written != replica:
                sentence = f"Broker {replica.broker} checkpoints its high watermark {replica.high_watermark}."
                yield sentence, state.with_replica(written)


def checkpoint_meanwhile(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """What a checkpoint may say once the cluster has settled: any high watermark on the way to the present one."""
    for replica in state.replicas:
        written = replica.checkpointed_high_watermark
        if replica.runs and replica.role in (LEADER, FOLLOWER) and written != replica.high_watermark:
            following = written + 1 if written < replica.high_watermark else replica.high_watermark
            after = state.with_replica(replica._replace(checkpointed_high_watermark=following))
            yield f"Broker {replica.broker} checkpoints a high watermark of {following}.", after


def send(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A producer sends, or sends again, its first unanswered record to a broker that leads; urgent.

    A producer has one request in flight: a broker takes no second one from a connection before it answered.
    """
    busy = {pending.produce.producer for pending in state.pending}
    for produce in dict.fromkeys(state.outgoing):
        if produce.producer in busy:
            continue
        busy.add(produce.producer)
        for leader in state.replicas:
            if leader.role == LEADER and leader.runs and not state.is_cut(CLIENTS, CLIENT, leader.broker):
                yield from _handle(state, config, leader, produce)
        if produce.acks == "0" and state.partition.leader_epoch > 0:
            sentence = f"{produce.record} is sent to a former leader, which closes the connection without a word."
            yield sentence, _acknowledged(_without(state, produce), produce.record, None)


def _handle(state: ClusterState, config: ClusterConfig, leader: Replica, produce: Produce) -> Iterator[Outcome]:
    if produce.acks == "all" and len(leader.isr) < config.effective_min_isr:
        yield from _answered_with(state, leader, produce, "NOT_ENOUGH_REPLICAS")
        return
    offset = _held_at(leader, produce) if produce.idempotent else None
    if offset is None and produce.idempotent and not _in_sequence(leader, produce):
        yield from _answered_with(state, leader, produce, "OUT_OF_ORDER_SEQUENCE_NUMBER")
        return
    sentence = f"Broker {leader.broker} already holds {produce.record}, by its sequence number."
    if offset is None:
        offset = leader.log_end
        producer = produce.producer if produce.idempotent else None
        entry = Entry(
            offset, produce.record, leader.leader_epoch, producer, produce.sequence, produce.key, produce.tombstone
        )
        leader = advanced(append(leader, (entry,), offset + 1), config)
        sentence = f"Broker {leader.broker} appends {produce.record} at offset {offset}."
    after = _without(state.with_replica(leader), produce)
    if produce.acks == "all":
        yield sentence, after._replace(pending=(*after.pending, Pending(produce, leader.broker, offset)))
    else:
        known = None if produce.acks == "0" else offset
        yield f"{sentence} It is acknowledged.", _acknowledged(after, produce.record, known)


def _held_at(leader: Replica, produce: Produce) -> int | None:
    return cached_offset(leader.producers, produce.producer, produce.sequence)


def _in_sequence(leader: Replica, produce: Produce) -> bool:
    last = last_sequence(leader.producers, produce.producer)
    return last is None or produce.sequence == last + 1


def _answered_with(state: ClusterState, leader: Replica, produce: Produce, error: str) -> Iterator[Outcome]:
    if produce.error != error:
        failed = tuple(produce._replace(error=error) if p == produce else p for p in state.outgoing)
        yield f"Broker {leader.broker} answers {produce.record} with {error}.", state._replace(outgoing=failed)


def _without(state: ClusterState, produce: Produce) -> ClusterState:
    at = state.outgoing.index(produce)
    return state._replace(outgoing=state.outgoing[:at] + state.outgoing[at + 1 :])


def _acknowledged(state: ClusterState, record: str, offset: int | None) -> ClusterState:
    return state._replace(acknowledged=(*state.acknowledged, (record, offset)))


def answer(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A leader answers acks=all once its high watermark has passed the record; one that no longer leads, or is
    gone, leaves the producer to try again; urgent."""
    for pending in state.pending:
        replica = state.replica(pending.broker)
        rest = state._replace(pending=tuple(other for other in state.pending if other != pending))
        record = pending.produce.record
        if not replica.up or (replica.runs and replica.role != LEADER):
            error = "NOT_LEADER_OR_FOLLOWER" if replica.up else "NETWORK_EXCEPTION"
            yield _retried(rest, pending, error)
        elif replica.runs and replica.high_watermark > pending.offset:
            if len(replica.isr) < config.effective_min_isr:
                yield _retried(rest, pending, "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
            else:
                sentence = f"Broker {replica.broker} acknowledges {record} at offset {pending.offset}."
                yield sentence, _acknowledged(rest, record, pending.offset)


def _retried(state: ClusterState, pending: Pending, error: str) -> Outcome:
    again = pending.produce._replace(error=error)
    sentence = f"The answer for {again.record} is {error}: its producer will send it again."
    return sentence, state._replace(outgoing=(again, *state.outgoing))


def serve_consumers(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
    """A consumer that polls is answered by a broker that leads, with what lies below its high watermark; urgent.

    A position outside the log is reset to the log's start (`auto.offset.reset=earliest`).
    """
    for consumer in state.consumers:
        if not consumer.polling:
            continue
        for leader in state.replicas:
            if leader.role != LEADER or not leader.runs or state.is_cut(CLIENTS, CLIENT, leader.broker):
                continue
            start = consumer.position if leader.log_start <= consumer.position <= leader.log_end else leader.log_start
            new = tuple((e.offset, e.record) for e in leader.log if start <= e.offset < leader.high_watermark)
            end = max(start, leader.high_watermark)
            answered = consumer._replace(position=end, read=consumer.read + new, polling=False)
            names = ", ".join(record for _, record in new) or "nothing"
            after = tuple(answered if other == consumer else other for other in state.consumers)
            yield f"{consumer.name} reads {names} from broker {leader.broker}.", state._replace(consumers=after)

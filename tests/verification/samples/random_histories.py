"""Random little histories in which everything collides: few identities, few offsets, any outcome anywhere."""

from random import Random

from tests.verification.oracle.rows import LaneHistory, Produced, Read, Replicated, Stored

YOUNG_NS = 10**12


def random_history(random: Random, *, final_log: bool, records: int = 150) -> LaneHistory:
    """One lane: mostly a plausible history with random damage, sometimes pure noise."""
    history = _noise(random) if random.random() < 0.3 else _damaged(random, records)
    if not final_log:
        history.log = None
    return history


def random_unplaced_history(random: Random) -> LaneHistory:
    """One lane whose producers are told no place, as with acks=0, except here and there; some are told of a failure."""
    history = random_history(random, final_log=True)
    for index, row in enumerate(history.produced):
        if random.random() < 0.99:
            outcome = "fail" if random.random() < 0.01 else row.outcome
            history.produced[index] = row._replace(partition=None, offset=None, outcome=outcome)
    return history


def compacted(random: Random, history: LaneHistory) -> LaneHistory:
    """The history with keys and tombstones, half of them young, and its log compacted; now and then more is lost."""
    for index, row in enumerate(history.produced):
        key = random.choice("abcdefgh") if random.random() < 0.999 else None
        sent_ns = row.invoke_ns + random.choice([0, 2 * YOUNG_NS])
        history.produced[index] = row._replace(key=key, tombstone=random.choice([None, 0, 1]), invoke_ns=sent_ns)
    sent, newer = {(row.producer_id, row.seq): row for row in history.produced}, set[tuple[int, str | None]]()
    for stored in sorted(history.log or (), reverse=True):
        record = sent.get((stored.producer_id, stored.seq))
        place = (stored.partition, record and record.key)
        if random.random() < (0.7 if place in newer else 0.3 if record and record.tombstone else 0.02):
            (history.log or []).remove(stored)
        newer.add(place)
    return history


def _noise(random: Random) -> LaneHistory:
    partitions, producers, seqs, offsets = (random.randint(1, top) for top in (3, 3, 8, 8))

    def identity() -> tuple[int, int]:
        if random.random() < 0.05:
            return -1, -1
        return random.randrange(producers), random.randrange(seqs)

    def place() -> tuple[int, int]:
        return random.randrange(partitions), random.randrange(offsets)

    produced = {}
    for _ in range(random.randint(0, 10)):
        who = random.randrange(producers), random.randrange(seqs)
        where = place() if random.random() < 0.8 else (random.choice([None, 0]), None)
        produced[who] = Produced(*who, *where, random.choice(["ok", "ok", "fail", "info"]))
    log = {place(): identity() for _ in range(random.randint(0, 10))}
    stored = [Stored(*where, *who) for where, who in log.items()]
    if stored and random.random() < 0.2:
        stored.append(Stored(stored[0].partition, stored[0].offset, *identity()))
    consumed = []
    for poll in range(random.randint(0, 12)):
        where, who = place(), identity()
        if log and random.random() < 0.7:
            where, who = random.choice(list(log.items()))
        consumed.append(Read(f"c{random.randrange(2)}", *where, *who, poll_ns=poll))
    replicas = [
        Replicated(0, broker, offset, random.randrange(2), *identity())
        for broker in range(3)
        for offset in range(random.randrange(4))
        if random.random() < 0.9
    ]
    marks = {0: random.randrange(4)} if random.random() < 0.5 else {}
    return LaneHistory(list(produced.values()), consumed, stored, replicas, marks)


def _damaged(random: Random, records: int) -> LaneHistory:
    """Producers append in order, consumers follow; then a few rows are dropped, moved, repeated or changed."""
    partitions, producers = random.randint(1, 2), random.randint(1, 2)
    ends = [0] * partitions
    history = LaneHistory(log=[])
    assert history.log is not None
    for seq in range(random.randint(1, records)):
        producer_id, partition = random.randrange(producers), random.randrange(partitions)
        outcome = "ok" if random.random() < 0.9 else random.choice(["info", "fail"])
        written = outcome == "ok" or (outcome == "info" and random.random() < 0.5)
        offset = ends[partition] if written else None
        known = outcome == "ok" or random.random() < 0.2
        history.produced.append(Produced(producer_id, seq, partition, offset if known else None, outcome))
        if offset is not None:
            ends[partition] += 1
            history.log.append(Stored(partition, offset, producer_id, seq))
    poll = 0
    for consumer in range(random.randint(0, 2)):
        for row in history.log:
            poll += 1
            history.consumed.append(Read(f"c{consumer}", *row, poll_ns=poll))
    for _ in range(random.choice([0, 1, 1, 2, 4])):
        _damage(random, history)
    return history


def _damage(random: Random, history: LaneHistory) -> None:
    assert history.log is not None
    rows = random.choice([history.produced, history.consumed, history.log])
    if not rows:
        return
    index = random.randrange(len(rows)) if random.random() < 0.6 else random.choice([0, len(rows) - 1])
    row = rows[index]
    kind = random.choice(["drop", "move", "rename", "repeat", "swap", "tail"])
    if kind == "drop":
        del rows[index]
    elif kind == "tail":
        del rows[index:]
    elif kind == "move" and row.offset is not None:
        rows[index] = row._replace(offset=max(0, row.offset + random.choice([-3, -1, 1, 2, 70])))  # type: ignore[call-overload]
    elif kind == "rename" and rows is not history.produced:
        who = random.choice([(-1, -1), (0, 999), (row.producer_id, max(0, row.seq - 1))])
        rows[index] = row._replace(producer_id=who[0], seq=who[1])  # type: ignore[call-overload]
    elif kind == "repeat" and rows is not history.produced:
        again = row._replace(offset=(row.offset or 0) + random.choice([0, 1, 5]))
        rows.insert(random.randint(0, len(rows)), again)  # type: ignore[arg-type]
    elif kind == "swap" and rows is history.consumed:
        other = random.randrange(len(rows))
        one, two = history.consumed[index], history.consumed[other]
        history.consumed[index] = one._replace(poll_ns=two.poll_ns)
        history.consumed[other] = two._replace(poll_ns=one.poll_ns)

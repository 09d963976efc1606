"""Random little lanes with a share group: mostly plausible, then damaged anywhere."""

from random import Random
from typing import Any

from tests.verification.oracle.rows import LaneHistory
from tests.verification.samples import planted_shares as planted

LOCK_NS = planted.LOCK_MS * 1_000_000
_KINDS = ("accept", "accept", "release", "reject", None)


def random_shares(random: Random) -> LaneHistory:
    """A clean lane, or one with transactions, to whose members more was given, and that is damaged."""
    history = planted.clean() if random.random() < 0.6 else planted.transactional(given=random.random() < 0.2)[0]
    for _ in range(random.randrange(10)):
        row = random.choice(history.deliveries)
        given_ns = random.choice(
            [row.delivered_ns, row.delivered_ns + LOCK_NS, 60 * planted.SECOND]
        ) + random.randrange(-30, 30)
        member, kind = f"m{random.randrange(3)}", random.choice(_KINDS)
        more = planted.delivery(row.seq, given_ns, member, count=random.randrange(1, planted.LIMIT + 2), kind=kind)
        if kind is not None:
            answered_ns = given_ns + random.choice([10, 100, LOCK_NS // 2, 2 * LOCK_NS])
            more = more._replace(invoke_ns=answered_ns, complete_ns=answered_ns + 10)
        history.deliveries.append(more._replace(partition=row.partition, offset=row.offset))
    for _ in range(random.randrange(4)):
        at, member = random.randrange(2, 70) * planted.SECOND, f"m{random.randrange(3)}"
        offset = random.randrange(planted.RECORDS // planted.PARTITIONS + 1)
        told = planted.start(random.randrange(planted.PARTITIONS), offset, at, member)
        history.share_starts.append(told._replace(lag=random.choice([None, None, 0, 1])))
    for number in range(1, random.randrange(1, 5)):
        letter = planted.letter(random.choice(history.deliveries).seq, number)
        history.dead_letters.append(letter._replace(seq=random.choice([letter.seq, 1])))
    for _ in range(random.choice([0, 1, 2, 5])):
        _damage(random, history)
    return history


def _damage(random: Random, history: LaneHistory) -> None:
    tables: list[Any] = [history.deliveries, history.deliveries, history.log, history.share_starts, history.produced]
    tables.append(history.dead_letters)
    rows = random.choice([table for table in tables if table])
    index = random.randrange(len(rows))
    row, other = rows[index], random.choice(rows)
    if random.random() < 0.3:
        del rows[index]
    elif rows is history.deliveries:
        changes: list[dict[str, Any]] = [
            {"member": other.member},
            {"delivery_count": random.randrange(1, planted.LIMIT + 2)},
            {"asked_ns": None},
            {"producer_id": other.producer_id, "seq": other.seq},
        ]
        if row.outcome is not None:
            changes += [{"outcome": "fail"}, {"outcome": "info", "complete_ns": None}]
        rows[index] = row._replace(**random.choice(changes))
    elif rows is history.dead_letters:
        nothing: dict[str, Any] = {"producer_id": None, "seq": None}
        rows[index] = row._replace(**random.choice([nothing, {"source_offset": None}, {"source_group": "other"}]))
    elif rows is history.share_starts:
        rows[index] = row._replace(offset=other.offset, lag=random.choice([None, 0]))
    elif rows is history.produced:
        rows[index] = row._replace(outcome=random.choice(["ok", "fail", "info"]))
    else:
        rows[index] = row._replace(producer_id=other.producer_id, seq=other.seq)

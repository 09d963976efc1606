"""A clean lane with a share group, and each anomaly planted in it."""

from collections.abc import Callable
from typing import Any

from kafka_chaos.contract.lane.share import share_group_of
from tests.verification.oracle import rows as oracle

LANE, PARTITIONS, RECORDS = "shared", 2, 12
LOCK_MS, LIMIT = 1_000, 5
SECOND = 1_000_000_000
Plant = tuple[oracle.LaneHistory, list[oracle.Case]]


def lane_keys(**share: Any) -> dict[str, Any]:
    """The keys of lanes.json for the lane."""
    cluster = {"kafka_version": "4.4.0", "metadata_mode": "kraft", "client": {"name": "java", "version": "4.2.2"}}
    settings = {"members": 2, "acknowledgement": "explicit", "lock_ms": LOCK_MS, "delivery_limit": LIMIT, **share}
    return {**cluster, "partitions": PARTITIONS, "share": {"dead_letters": "copies", **settings}}


def delivery(
    seq: int, at_ns: int, member: str = "m0", *, count: int = 1, kind: str | None = "accept"
) -> oracle.Delivery:
    """The record of this seq, given to a member at this time and acknowledged at once."""
    place = (seq % PARTITIONS, seq // PARTITIONS)
    answer = () if kind is None else (kind, "ok", at_ns + 10, at_ns + 20)
    return oracle.Delivery(share_group_of(LANE), member, *place, 0, seq, count, at_ns - 10, at_ns, *answer)


def start(partition: int, offset: int, at_ns: int, member: str = "m0") -> oracle.ShareStart:
    return oracle.ShareStart(share_group_of(LANE), member, partition, offset, at_ns, at_ns + 1)


def letter(seq: int, number: int = 0, /, **changes: Any) -> oracle.DeadLetter:
    """A copy of the record of this seq, at this offset of the topic for dead letters."""
    place = (seq % PARTITIONS, seq // PARTITIONS)
    return oracle.DeadLetter(place[0], number, share_group_of(LANE), *place, 0, seq)._replace(**changes)


def clean() -> oracle.LaneHistory:
    """Two members accept all records in turn; one record is released first, one is rejected, and has a letter."""
    history = oracle.LaneHistory(log=[], dead_letters=[letter(5)])
    assert history.log is not None
    for seq in range(RECORDS):
        place = (seq % PARTITIONS, seq // PARTITIONS)
        history.produced.append(oracle.Produced(0, seq, *place, "ok", None, SECOND + seq * 100, SECOND + seq * 100 + 5))
        history.log.append(oracle.Stored(*place, 0, seq))
        history.consumed.append(oracle.Read("follower", *place, 0, seq, 2 * SECOND + seq))
        kind = {3: "release", 5: "reject"}.get(seq, "accept")
        history.deliveries.append(delivery(seq, (3 + seq) * SECOND, f"m{seq % 2}", kind=kind))
    history.deliveries.append(delivery(3, 20 * SECOND, "m0", count=2))
    for partition in range(PARTITIONS):
        history.share_starts += [start(partition, 0, 2 * SECOND), start(partition, RECORDS // PARTITIONS, 90 * SECOND)]
    return history


def calm() -> Plant:
    return clean(), []


def never_delivered() -> Plant:
    history = clean()
    history.deliveries = [row for row in history.deliveries if row.seq != 4]
    return history, [oracle.Case("never_delivered", 0, 2, 0, 4)]


def an_offset_that_was_used_again() -> Plant:
    """Another record was delivered at the offset: the log was replaced."""
    history = clean()
    history.produced.append(oracle.Produced(0, 99, 0, None, "info", None, 1, 2))
    history.deliveries = [row._replace(seq=99) if row.seq == 4 else row for row in history.deliveries]
    return history, [oracle.Case(name, 0, 2, 0, 99) for name in ("inconsistent_offset", "truncated_read")]


def never_sent() -> Plant:
    """A member is given a record that nobody produced."""
    history = clean()
    history.deliveries.append(delivery(RECORDS + 1, 50 * SECOND))
    return history, [oracle.Case("phantom", 1, RECORDS // PARTITIONS, 0, RECORDS + 1)]


def delivered_to_two() -> Plant:
    """One member is given what another has in hand."""
    history = clean()
    at = 50 * SECOND
    history.deliveries += [delivery(3, at, "m0", kind="release")._replace(invoke_ns=at + 400, complete_ns=at + 500)]
    history.deliveries += [delivery(3, at + 100, "m1", kind="release")]
    accepted = [row for row in history.deliveries if row.seq == 3 and row.acknowledgement == "accept"]
    history.deliveries.remove(accepted[0])
    history.deliveries.append(delivery(3, at + SECOND, "m1", count=2))
    return history, [oracle.Case("delivered_to_two", 1, 1, 0, 3)]


def a_lock_that_ran_out() -> Plant:
    """A member keeps a record for longer than its lock: another one is given it."""
    history = clean()
    at = 4 * SECOND + SECOND // 2
    late = delivery(1, at)._replace(invoke_ns=at + 2 * SECOND, complete_ns=at + 2 * SECOND + 1, outcome="fail")
    history.deliveries = [row for row in history.deliveries if row.seq != 1]
    history.deliveries += [late, delivery(1, at + LOCK_MS * 1_000_000, "m1", count=2)]
    return history, []


def a_member_that_may_be_gone() -> Plant:
    """What a member never acknowledged holds nothing."""
    history = clean()
    history.deliveries.append(delivery(1, 4 * SECOND - 500, "m0", kind=None))
    return history, []


def redelivered_after_accept() -> Plant:
    history = clean()
    history.deliveries += [delivery(seq, 60 * SECOND, "m1", count=2) for seq in (2, 5)]
    return history, [oracle.Case("redelivered_after_accept", *place) for place in ((0, 1, 0, 2), (1, 2, 0, 5))]


def given_late() -> Plant:
    """What was asked for before the accept was acknowledged may have been on its way."""
    history = clean()
    asked_ns = (3 + 2) * SECOND + 15
    history.deliveries.append(delivery(2, 60 * SECOND, "m1")._replace(asked_ns=asked_ns))
    return history, []


def an_accept_in_doubt() -> Plant:
    history = clean()
    history.deliveries = [row._replace(outcome="info") if row.seq == 2 else row for row in history.deliveries]
    history.deliveries.append(delivery(2, 60 * SECOND, "m1", count=2))
    return history, []


def past_delivery_limit() -> Plant:
    """One is delivered too often by its count, one though its count stands still."""
    history = clean()
    history.deliveries = [
        row._replace(delivery_count=LIMIT + 1) if (row.seq, row.delivery_count) == (3, 2) else row
        for row in history.deliveries
        if row.seq != 7
    ]
    history.deliveries += [delivery(7, (40 + n) * SECOND, kind="release") for n in range(LIMIT + 1)]
    history.deliveries.append(delivery(7, 50 * SECOND))
    return history, [oracle.Case("past_delivery_limit", 1, seq // PARTITIONS, 0, seq) for seq in (3, 7)]


def archived_early() -> Plant:
    """A record is released, and never comes again."""
    history = clean()
    history.deliveries = [row for row in history.deliveries if (row.seq, row.delivery_count) != (3, 2)]
    return history, [oracle.Case("archived_early", 1, 1, 0, 3)]


def archived_at_the_limit() -> Plant:
    history = clean()
    history.deliveries = [row for row in history.deliveries if row.seq != 3]
    rows = [delivery(3, (40 + count) * SECOND, count=count, kind="release") for count in range(1, LIMIT + 1)]
    history.deliveries += rows
    history.dead_letters.append(letter(3, 1))
    return history, []


def dead_letter_missing() -> Plant:
    """Of a record that was rejected, of one that was released as often as allowed, and of one that nobody let go."""
    history = archived_at_the_limit()[0]
    history.dead_letters = []
    history.deliveries = [row for row in history.deliveries if row.seq != 7]
    history.deliveries.append(delivery(7, 50 * SECOND, count=LIMIT, kind=None))
    return history, [oracle.Case("dead_letter_missing", 1, seq // PARTITIONS, 0, seq) for seq in (3, 5, 7)]


def a_reject_that_was_refused() -> Plant:
    """Its member did not hold the record any more, and another one accepted it."""
    history = clean()
    refused = {"acknowledgement": "reject", "outcome": "fail"}
    history.deliveries = [row._replace(**refused) if row.seq == 7 else row for row in history.deliveries]
    history.deliveries.append(delivery(7, 50 * SECOND, count=2))
    return history, []


def dead_letter_doubled() -> Plant:
    history = clean()
    history.dead_letters.append(letter(5, 1))
    return history, [oracle.Case("dead_letter_doubled", 1, 2, None, None)]


def dead_letter_altered() -> Plant:
    """Letters of an accepted record, of no record, of another group's, without their record, with another one, and with
    too many and too few deliveries."""
    history = archived_at_the_limit()[0]
    history.produced = [row._replace(key="k") if row.seq == 5 else row for row in history.produced]
    history.dead_letters = [letter(3, 0, seq=4), letter(4), letter(5, 1, key="j"), letter(6, 1, source_offset=None)]
    kinds = [delivery(seq, (60 + seq) * SECOND, count=LIMIT, kind="release") for seq in (7, 9)]
    kinds += [delivery(1, 60 * SECOND, count=2, kind="reject"), delivery(11, 60 * SECOND, kind="reject")]
    history.deliveries = [row for row in history.deliveries if row.seq not in (1, 7, 9, 11)] + kinds
    history.dead_letters += [letter(1, 4, delivery_count=1), letter(11, 5, delivery_count=LIMIT + 1)]
    history.dead_letters += [letter(7, 2, source_group="other"), letter(9, 3, producer_id=None, seq=None)]
    places = [
        (1, 0, 0, 1),
        (1, 5, 0, 11),
        (1, 1, 0, 4),
        (0, 2, 0, 4),
        (1, 2, 0, 5),
        (0, None, 0, 6),
        (1, 3, 0, 7),
        (1, 4, None, None),
    ]
    cases = [oracle.Case("dead_letter_altered", *place) for place in places]
    return history, sorted(cases, key=oracle.case_order)


def share_start_went_back() -> Plant:
    """A start offset falls, and rises again; a member is given a record before it."""
    history = clean()
    history.deliveries = [row for row in history.deliveries if row.seq != 10] + [delivery(10, 96 * SECOND)]
    history.share_starts += [start(0, 2, 95 * SECOND, "m1"), start(0, RECORDS // PARTITIONS, 97 * SECOND)]
    return history, [oracle.Case("share_start_went_back", 0, offset, None, None) for offset in (2, 5)]


def reports_side_by_side() -> Plant:
    """Of two reports under way at a time, either may be the older one."""
    history = clean()
    end = RECORDS // PARTITIONS
    history.share_starts += [
        start(0, end, 40 * SECOND),
        start(0, 2, 10 * SECOND, "m1")._replace(complete_ns=41 * SECOND),
    ]
    return history, []


def transactional(*, given: bool) -> Plant:
    """The last record is aborted; a read_committed group is given it or not."""
    history = clean()
    history.timeout_ms, history.is_share_committed = 60_000, True
    history.produced = [row._replace(transaction=int(row.seq == RECORDS - 1)) for row in history.produced]
    between = SECOND + (RECORDS - 1) * 100 - 50
    ends = ((0, SECOND - 1, between, "committed"), (1, between + 1, 2 * SECOND, "aborted"))
    history.transactions = [oracle.Transaction(0, number, "t", begin, end, how) for number, begin, end, how in ends]
    last = RECORDS // PARTITIONS
    for row in history.log or ():
        shift = int(row.seq == RECORDS - 1)
        for broker in (1, 2, 3):
            history.replicas.append(oracle.Replicated(row.partition, broker, row.offset + shift, 0, 0, row.seq, "data"))
    history.log = [row._replace(offset=row.offset + int(row.seq == RECORDS - 1)) for row in history.log or ()]
    marks = ((0, last, "commit"), (1, last - 1, "commit"), (1, last + 1, "abort"))
    for broker in (1, 2, 3):
        history.replicas += [
            oracle.Replicated(partition, broker, offset, 0, 0, -1, kind) for partition, offset, kind in marks
        ]
    history.consumed = []
    for isolation in ("read_committed", "read_uncommitted"):
        history.assignments += [oracle.Assigned(isolation, partition, isolation) for partition in range(PARTITIONS)]
        rows = [row for row in history.log if row.seq < RECORDS - 1 or isolation == "read_uncommitted"]
        history.consumed += [oracle.Read(isolation, *row, 2 * SECOND + row.seq) for row in rows]
    moved = [row._replace(offset=row.offset + int(row.seq == RECORDS - 1)) for row in history.deliveries]
    history.deliveries = [row for row in moved if given or row.seq < RECORDS - 1]
    history.produced = [row._replace(offset=last) if row.seq == RECORDS - 1 else row for row in history.produced]
    # Past the markers: one in partition 0, two in partition 1.
    ends = [row.offset and row.offset + 1 + row.partition for row in history.share_starts]
    history.share_starts = [row._replace(offset=end) for row, end in zip(history.share_starts, ends, strict=True)]
    return history, [oracle.Case("aborted_read", 1, last, 0, RECORDS - 1)] if given else []


def aborted_read() -> Plant:
    return transactional(given=True)


def aborted_and_passed_over() -> Plant:
    return transactional(given=False)


PLANTS: tuple[Callable[[], Plant], ...] = (
    calm,
    never_delivered,
    an_offset_that_was_used_again,
    never_sent,
    delivered_to_two,
    a_lock_that_ran_out,
    a_member_that_may_be_gone,
    redelivered_after_accept,
    given_late,
    an_accept_in_doubt,
    past_delivery_limit,
    archived_early,
    archived_at_the_limit,
    dead_letter_missing,
    a_reject_that_was_refused,
    dead_letter_doubled,
    dead_letter_altered,
    share_start_went_back,
    reports_side_by_side,
    aborted_read,
    aborted_and_passed_over,
)

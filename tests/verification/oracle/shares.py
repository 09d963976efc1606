"""The anomalies of share groups in plain Python, obviously right, and the facts that they rest on.

Guarantee: each function states a sentence of docs/anomalies.md over lists of rows, as simply as possible.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import permutations

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import HEADERS, Share, share_group_of
from kafka_chaos.contract.ledger import ShareLedger
from tests.verification.oracle.rows import Case, Delivery, Finding, Identity, Place, View, named


def past_of(view: View) -> dict[int, int]:
    """By partition how far the group was past records at the last report."""
    last: dict[int, tuple[int, int, int]] = {}
    for row in view.history.share_starts:
        told = (row.invoke_ns, row.offset, -1 if row.lag is None else row.lag)
        last[row.partition] = max(told, last.get(row.partition, told))
    past = {partition: offset for partition, (_, offset, _) in last.items()}
    stored = {(row.partition, row.offset, row.producer_id, row.seq) for row in view.history.log or ()}
    acknowledged = [
        (row.partition, row.offset, row.complete_ns) for row in view.history.produced if row.outcome == "ok"
    ]
    given = [
        (row.partition, row.offset, row.delivered_ns)
        for row in view.history.deliveries
        if (row.partition, row.offset, row.producer_id, row.seq) in stored
    ]
    for partition, offset, ns in acknowledged + given:
        if partition in last and offset is not None and ns is not None and ns < last[partition][0]:
            past[partition] = past[partition] if last[partition][2] else max(past[partition], offset + 1)
    return past


class Shared:
    """The history of a lane's share group."""

    def __init__(self, view: View, lane: Lane, share: Share) -> None:
        self.view, self.lane, self.share = view, lane, share
        self.letters = view.history.dead_letters
        self.deliveries, self.starts = view.history.deliveries, view.history.share_starts
        self.lost = share.lost_deliveries(len(lane.faults))
        self.by_place: dict[Place, list[Delivery]] = defaultdict(list)
        self.genuine = view.genuine(self.deliveries)
        for row in self.genuine:
            self.by_place[row.partition, row.offset].append(row)

    def past(self, place: Place) -> int | None:
        """How far the group is past the partition, if the place lies before that."""
        end = past_of(self.view).get(place[0], 0)
        return end if place[1] < end else None

    def first(self, partition: int) -> int:
        told = min((row.complete_ns, row.offset) for row in self.starts if row.partition == partition)[1]
        stored = {(row.producer_id, row.seq, row.partition, row.offset) for row in self.view.history.log or ()}
        given = {(row.producer_id, row.seq, row.partition, row.offset) for row in self.deliveries}
        return min([told, *(place[3] for place in given & stored if place[2] == partition)])


def find_in_share(view: View, lane: Lane) -> list[Finding]:
    """All findings of the share group of one lane."""
    if lane.share is None:
        return []
    shared = Shared(view, lane, lane.share)
    return [found for finder in FINDERS for found in finder(shared)]


def _never_delivered(of: Shared) -> Iterable[Finding]:
    first: dict[Identity, tuple[int, int, int]] = {}
    for row in of.view.history.log or ():
        place, identity = (row.partition, row.offset), (row.producer_id, row.seq)
        past = of.past(place)
        was_given = any((row.partition, row.offset) == place for row in of.deliveries)
        if past is None or identity not in of.view.outcome or was_given:
            continue
        if of.share.start == "latest" and row.offset < of.first(row.partition):
            continue
        if of.share.isolation == "read_committed" and place not in of.view.visible:
            continue
        first[identity] = min((*place, past), first.get(identity, (*place, past)))
    for identity, (partition, offset, past) in first.items():
        yield named("never_delivered", (partition, offset), identity, f"the group is past offset {past}")


def _delivered_to_two(of: Shared) -> Iterable[Finding]:
    for place, rows in of.by_place.items():
        for one, other in permutations(rows, 2):
            if (
                None in (one.asked_ns, one.invoke_ns, other.asked_ns)
                or one.member == other.member
                or one.outcome == "fail"
            ):
                continue
            if (one.producer_id, one.seq) != (other.producer_id, other.seq):
                continue
            assert one.asked_ns is not None
            assert one.invoke_ns is not None
            assert other.asked_ns is not None
            held_until = min(one.invoke_ns, one.asked_ns + of.share.lock_ms * 1_000_000)
            if other.asked_ns > one.delivered_ns and other.delivered_ns < held_until:
                cause = f"{one.member} and {other.member}"
                yield named("delivered_to_two", place, (other.producer_id, other.seq), cause)


def _redelivered_after_accept(of: Shared) -> Iterable[Finding]:
    first: dict[Identity, tuple[int, int, int, str, str, int, str]] = {}
    for (partition, offset), rows in of.by_place.items():
        for one, other in permutations(rows, 2):
            identity = (one.producer_id, one.seq)
            is_done = one.acknowledgement in ("accept", "reject") and one.outcome == "ok"
            if is_done and None not in (one.complete_ns, other.asked_ns) and identity == (other.producer_id, other.seq):
                assert one.complete_ns is not None
                assert other.asked_ns is not None
                how, again = one.acknowledgement or "", (other.delivered_ns, other.member)
                if other.asked_ns > one.complete_ns:
                    at = (partition, offset, one.complete_ns, one.member, how, *again)
                    first[identity] = min(at, first.get(identity, at))
    for identity, (partition, offset, _, member, how, _, again) in first.items():
        cause = f"{how}ed by {member}, given to {again}"
        yield named("redelivered_after_accept", (partition, offset), identity, cause)


def _past_delivery_limit(of: Shared) -> Iterable[Finding]:
    last: dict[Identity, tuple[int, int, int]] = {}
    limit = of.share.delivery_limit
    for row in of.genuine:
        same = [one for one in of.by_place[row.partition, row.offset] if one[4:6] == row[4:6]]
        releases = {one.delivered_ns for one in same if (one.acknowledgement, one.outcome) == ("release", "ok")}
        count = max(row.delivery_count, 0 if of.lane.faults else len(releases))
        if count > limit:
            at = (count, row.partition, row.offset)
            last[row.producer_id, row.seq] = max(at, last.get((row.producer_id, row.seq), at))
    for identity, (count, partition, offset) in last.items():
        cause = f"delivered {count} times, at most {limit} allowed"
        yield named("past_delivery_limit", (partition, offset), identity, cause)


def _archived_early(of: Shared) -> Iterable[Finding]:
    # With this many, each record that was delivered at all may have reached the limit: that is predicted as permitted.
    unseen = 0 if of.lost >= of.share.delivery_limit - 1 else of.lost
    for place, rows in of.by_place.items():
        past = of.past(place)
        if past is None or any(row.acknowledgement in ("accept", "reject") for row in rows):
            continue
        for identity in {(row.producer_id, row.seq) for row in rows}:
            count = max(row.delivery_count for row in rows if (row.producer_id, row.seq) == identity)
            if count + unseen < of.share.delivery_limit:
                cause = f"delivered {count} times, and the group is past offset {past}"
                yield named("archived_early", place, identity, cause)


def _share_start_went_back(of: Shared) -> Iterator[Finding]:
    told = {("told", row.member, row.partition, row.offset, row.invoke_ns, row.complete_ns) for row in of.starts}
    given = {("given", row.member, row.partition, row.offset, row.asked_ns, row.delivered_ns) for row in of.deliveries}
    for how, member, partition, offset, asked_ns, _ in told | given:
        before = [one for one in of.starts if one.partition == partition and one.complete_ns < (asked_ns or 0)]
        highest = max((one.offset for one in before), default=0)
        if highest > offset:
            cause = f"{how} to {member}, after {highest}"
            yield named("share_start_went_back", (partition, offset), None, cause)


def _given_up(of: Shared) -> Iterator[tuple[Place, Identity, int]]:
    """The records that were rejected or delivered as often as allowed, and not accepted, with their deliveries."""
    taken = [row for row in of.deliveries if row.acknowledgement == "accept" and row.outcome != "fail"]
    accepted = {(row.partition, row.offset) for row in taken}
    for place, rows in of.by_place.items():
        if of.past(place) is None or place in accepted:
            continue
        for identity in {(row.producer_id, row.seq) for row in rows}:
            own = [row for row in rows if (row.producer_id, row.seq) == identity]
            count = max(row.delivery_count for row in own)
            is_rejected = any(row.acknowledgement == "reject" and row.outcome != "fail" for row in own)
            if is_rejected or count >= of.share.delivery_limit:
                yield place, identity, count


def _dead_letter_missing(of: Shared) -> Iterator[Finding]:
    written = {(row.source_partition, row.source_offset) for row in of.letters}
    for place, identity, count in _given_up(of):
        if place not in written:
            yield named("dead_letter_missing", place, identity, f"given up after {count} deliveries")


def _dead_letter_doubled(of: Shared) -> Iterator[Finding]:
    places = {(row.source_partition, row.source_offset, row.partition, row.offset) for row in of.letters}
    for (partition, offset), count in Counter((partition, offset) for partition, offset, *_ in places).items():
        if partition is not None and offset is not None and count > 1:
            yield named("dead_letter_doubled", (partition, offset), None, f"{count} dead letters")


def _dead_letter_altered(of: Shared) -> Iterator[Finding]:
    keys = {(row.producer_id, row.seq): row.key for row in of.view.history.produced}
    for letter in of.letters:
        place, identity = (letter.source_partition, letter.source_offset), (letter.producer_id, letter.seq)
        rows = [row for row in of.deliveries if (row.partition, row.offset) == place]
        count = max((row.delivery_count for row in rows), default=0)
        stored = [row for row in of.view.history.log or () if (row.partition, row.offset) == place]
        accepts = [row for row in rows if (row.acknowledgement, row.outcome) == ("accept", "ok")]
        held = [row.complete_ns - row.asked_ns for row in accepts if row.complete_ns and row.asked_ns]
        is_done = not of.lane.faults and any(ns < of.share.lock_ms * 1_000_000 for ns in held)
        is_rejected = any(row.acknowledgement == "reject" for row in rows)
        cause = None
        if letter.source_offset is None or letter.source_group != share_group_of(of.lane.lane):
            cause = "it names no record of the group"
        elif not is_rejected and (is_done or count + of.lost < of.share.delivery_limit):
            cause = f"of a record that nobody rejected, delivered {count} times"
        elif (
            letter.delivery_count
            and not (0 if of.lane.faults else count) <= letter.delivery_count <= of.share.delivery_limit
        ):
            cause = f"it counts {letter.delivery_count} deliveries of {count}"
        elif letter.seq is None:
            cause = None if of.lane.faults or of.share.dead_letters == HEADERS else "it holds no record"
        elif of.share.dead_letters == HEADERS:
            cause = "it holds a record, though headers alone were asked for"
        elif identity not in {(row.producer_id, row.seq) for row in (*rows, *stored)}:
            cause = "it holds another record"
        elif keys.get(identity) not in (None, letter.key):  # type: ignore[arg-type]
            cause = "it holds another key"
        if cause:
            yield Finding(Case("dead_letter_altered", *place, *identity), cause)


FINDERS: tuple[Callable[[Shared], Iterable[Finding]], ...] = (
    _never_delivered,
    _delivered_to_two,
    _redelivered_after_accept,
    _past_delivery_limit,
    _archived_early,
    _share_start_went_back,
    _dead_letter_missing,
    _dead_letter_doubled,
    _dead_letter_altered,
)
FOUND = tuple(finder.__name__[1:] for finder in FINDERS)
"""The anomalies that `find_in_share` finds."""


def share_facts(view: View, group: str) -> ShareLedger:
    """The counts of a share group's rows."""
    rows = view.history.deliveries
    done = Counter(row.acknowledgement for row in rows if row.outcome == "ok")
    outcomes = Counter(row.outcome for row in rows)
    past = past_of(view)
    return ShareLedger(
        group=group,
        deliveries=len(rows),
        members=len({row.member for row in rows}),
        accepted=done["accept"],
        released=done["release"],
        rejected=done["reject"],
        refused=outcomes["fail"],
        in_doubt=outcomes["info"],
        unasked=sum(row.asked_ns is None for row in rows),
        doubled=len(rows) - len({(row.member, row.partition, row.offset, row.delivered_ns) for row in rows}),
        reported=len(past),
        letters=len(view.history.dead_letters),
        undrained=sum(past.get(partition, -1) <= end for partition, end in view.log_end.items()),
    )

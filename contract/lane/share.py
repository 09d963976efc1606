"""The share group of a lane (KIP-932): its settings, and the names of what may go wrong with it.

Members of a share group are given records, not partitions: the leader of a partition lends a record to one member for
the time of an acquisition lock, and the member accepts, releases or rejects it. The share coordinator keeps in
`__share_group_state` which records the group has finished. Kafka promises to deliver each record at least once.

Sources: KIP-932 (share groups), KIP-1240 (delivery limits of groups, Kafka 4.4), KIP-1191 (dead letters, Kafka 4.4).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafka_chaos.contract.anomalies import AnomalyName, Trait
from kafka_chaos.contract.command.errors import LaneError, counted
from kafka_chaos.contract.lane.groups import EARLIEST, JOINS, LEAVES, RESETS, check_leaves
from kafka_chaos.contract.lane.settings import Settings, check, setting
from kafka_chaos.contract.lane.transactions import ISOLATION_LEVELS, READ_UNCOMMITTED

IMPLICIT, EXPLICIT = "implicit", "explicit"
ACKNOWLEDGEMENTS = ("accept", "release", "reject", "renew")
SHARE_GROUPS_SINCE = "4.2"  # the version of brokers and clients since which share groups are ready for production
LIMIT_PER_GROUP_SINCE = "4.4"
"""Since this version a group has a delivery limit of its own (KIP-1240); before, the brokers' limit holds."""
NO_LETTERS, HEADERS, COPIES = DEAD_LETTERS = ("none", "headers", "copies")
DEAD_LETTERS_SINCE = "4.4"
USUAL_LIMIT = 5  # deliveries of one record
DELIVERIES_LOST = 2
"""The most deliveries of one record that an interruption may cost: one to a member that is gone, and one to a member
that has to give the partition back in the assignment that follows."""


class ShareAnomaly(AnomalyName):
    """A named deviation from what share groups promise. docs/anomalies.md says what counts as a case."""

    NEVER_DELIVERED = "never_delivered", "a record below the group's start offset that nobody was given", Trait.BY_LOG
    DELIVERED_TO_TWO = "delivered_to_two", "one record lent to two members at a time"
    REDELIVERED_AFTER_ACCEPT = "redelivered_after_accept", "an accept was acknowledged, and the record came again"
    PAST_DELIVERY_LIMIT = "past_delivery_limit", "a delivery beyond the limit of deliveries"
    ARCHIVED_EARLY = "archived_early", "a record below the group's start offset that nobody was done with"
    SHARE_START_WENT_BACK = "share_start_went_back", "a start offset of the group lower than one before it"
    DEAD_LETTER_MISSING = "dead_letter_missing", "a record that was given up, and no dead letter names it"
    DEAD_LETTER_DOUBLED = "dead_letter_doubled", "two dead letters for one record"
    DEAD_LETTER_ALTERED = "dead_letter_altered", "a dead letter of a record not given up, or unlike its record"


OF_DEAD_LETTERS = tuple(anomaly for anomaly in ShareAnomaly if anomaly.startswith("dead_letter"))
"""The anomalies of share groups with dead letters alone."""


def share_group_of(lane: str) -> str:
    """The id of the share group that reads a lane with the key `share`, in `deliveries/` and `share_starts/`."""
    return f"{lane}-share"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share(Settings):
    """A share group, and how its members come, go and hang without any fault; raises `LaneError` for invalid values."""

    KEY = "share"

    members: int = setting(3, "members of the share group at the beginning", le=50)
    acknowledgement: str = setting(
        IMPLICIT,
        "`implicit`: a member accepts what it was given by its next poll; `explicit`: it acknowledges each record",
        choices=(IMPLICIT, EXPLICIT),
    )
    release: float = setting(0.0, "share of the deliveries that a member gives back (explicit), 0 to 1")
    reject: float = setting(0.0, "share of the deliveries that it rejects (explicit), 0 to 1")
    lock_ms: int = setting(
        5_000, "`share.record.lock.duration.ms`: how long a record is lent to a member", ge=1_000, le=60_000
    )
    delivery_limit: int = setting(
        USUAL_LIMIT,
        "how often a record is delivered at most: `share.delivery.count.limit`, and before Kafka 4.4 the brokers' "
        "`group.share.delivery.count.limit`, which has to say the same",
        least=2,
        le=10,
    )
    isolation: str = setting(READ_UNCOMMITTED, "`share.isolation.level` of the group", choices=ISOLATION_LEVELS)
    start: str = setting(EARLIEST, "`share.auto.offset.reset`: where the group begins", choices=RESETS)
    crashes: int = setting(
        0,
        "how often, evenly over the load, a member is killed with records in hand; a new one takes its place",
        least=0,
        le=1_000,
    )
    freezes: int = setting(
        0,
        "how often, evenly over the load, a member keeps records for longer than `lock_ms` before it acknowledges",
        least=0,
        le=1_000,
    )
    dead_letters: str = setting(
        NO_LETTERS,
        "what brokers write to the topic `dlq.TOPIC` for each record that was rejected, or delivered as often as the "
        "limit allows (KIP-1191, Kafka 4.4): nothing, `headers` that name the record, or `copies` of it with these",
        choices=DEAD_LETTERS,
    )
    joins: int = field(default=0, metadata=JOINS)
    leaves: int = field(default=0, metadata=LEAVES)

    def __post_init__(self) -> None:
        check(self, "share.")
        given_up = self.release + self.reject
        if given_up > 1:
            raise LaneError(
                "share.reject", self.reject, f"at most {1 - self.release:g} beside release {self.release:g}"
            )
        if given_up and self.acknowledgement == IMPLICIT:
            raise LaneError("share.acknowledgement", self.acknowledgement, f"{EXPLICIT}, to release or reject records")
        check_leaves("share", self.members, self.joins, self.leaves)

    def lost_deliveries(self, faults: int) -> int:
        """The most deliveries of one record that may have gone unseen, if the lane had this many faults."""
        return DELIVERIES_LOST * (faults + self.crashes + self.freezes + self.joins + self.leaves)

    @property
    def anomalies(self) -> tuple[ShareAnomaly, ...]:
        """The anomalies that are looked for in the group: those of dead letters only if it has some."""
        without = OF_DEAD_LETTERS if self.dead_letters == NO_LETTERS else ()
        return tuple(anomaly for anomaly in ShareAnomaly if anomaly not in without)

    @property
    def described(self) -> str:
        """The settings in words, for people."""
        texts = [counted(self.members, "member"), f"{self.acknowledgement} acknowledgement"]
        texts += [
            f"{share:.0%} {what}" for share, what in ((self.release, "released"), (self.reject, "rejected")) if share
        ]
        texts += [] if self.dead_letters == NO_LETTERS else [f"dead letters with {self.dead_letters}"]
        texts += [f"lock {self.lock_ms / 1000:g} s", f"at most {self.delivery_limit} deliveries", self.isolation]
        counts = {"freeze": self.freezes, "join": self.joins, "leave": self.leaves}
        texts += [counted(self.crashes, "crash", "crashes")] if self.crashes else []
        return ", ".join([*texts, f"from the {self.start}", *(counted(n, name) for name, n in counts.items() if n)])

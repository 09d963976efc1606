"""Promises of recovery: the anomalies that break them, and the time-outs of a lane, which give the bounds.

A lane may be unavailable while faults leave too few of its replicas, and for a bounded time after. No sentence of
Kafka's documentation states the bound: it is the sum of the documented time-outs that have to pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kafka_chaos.contract.anomalies import AnomalyName
from kafka_chaos.contract.lane.settings import check, checked_object, key

DAY_MS = 86_400_000


class RecoveryAnomaly(AnomalyName):
    """A named way of not recovering. docs/anomalies.md says what counts as a case."""

    STALLED_PRODUCER = "stalled_producer", "nothing was acknowledged for longer than the lane's time-outs allow"
    STALLED_CONSUMER = "stalled_consumer", "nothing was read for longer than the lane's time-outs allow"
    ISR_NOT_RESTORED = "isr_not_restored", "an ISR was not whole again after faults, for longer than time-outs allow"
    GROUP_NOT_STABLE = "group_not_stable", "nobody owned a partition of a group for longer than time-outs allow"
    TRANSACTION_NOT_ENDED = "transaction_not_ended", "a transaction held consumers back for longer than time-outs allow"
    SHARE_STALLED = "share_stalled", "nothing was delivered to a share group for longer than time-outs allow"


CALLS: Mapping[str, RecoveryAnomaly] = {
    **dict.fromkeys(
        [
            *("init_transactions", "begin_transaction", "send_offsets_to_transaction", "commit_transaction"),
            *("abort_transaction", "transaction", "send", "flush"),
        ],
        RecoveryAnomaly.STALLED_PRODUCER,
    ),
    "poll": RecoveryAnomaly.STALLED_CONSUMER,
    "commit": RecoveryAnomaly.STALLED_CONSUMER,
    "join": RecoveryAnomaly.GROUP_NOT_STABLE,
}
"""The calls of clients that are timed, each with the anomaly that a call shows if it takes longer than its bound.

`send`: handing records to a producer, which blocks while its buffer is full; `flush`: waiting for the outcomes of all
records, once the load has ended; `transaction`: what a loop's member does from its first record to its commit or abort;
`commit`: a commit of offsets; `join`: from a group's beginning until a member is given partitions.
"""


def _ms(meaning: str) -> dict[str, Any]:
    """The metadata of a time-out, which may be a day at most: with a longer one, a lane would never have to recover."""
    return key(meaning, most=DAY_MS)


def _client_ms(meaning: str) -> Any:
    return field(default=None, metadata=_ms(meaning))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timings:
    """The time-outs of a lane's brokers and clients in milliseconds: an entry of `timings.json`.

    The meaning of each names its key in Kafka, if any, and what happens after this time. A time-out of clients is None
    where it is not known: anomalies whose bound needs it are then not judged. Raises `LaneError` for invalid values.
    """

    session_ms: int = field(
        metadata=_ms("`zookeeper.session.timeout.ms` or `broker.session.timeout.ms`: a silent broker's session ends")
    )
    election_ms: int = field(
        metadata=_ms("a new controller takes over: the old one's ZooKeeper session ends, or KRaft's quorum elects one")
    )
    lag_ms: int = field(metadata=_ms("`replica.lag.time.max.ms`: a follower that does not fetch leaves the ISR"))
    replica_socket_ms: int = field(metadata=_ms("`replica.socket.timeout.ms`: a follower gives up a fetch"))
    abort_check_ms: int = field(
        metadata=_ms(
            "`transaction.abort.timed.out.transaction.cleanup.interval.ms`: coordinators look for expired transactions"
        )
    )
    reconnect_ms: int | None = _client_ms("`reconnect.backoff.max.ms`; the bound adds half of it for its jitter")
    retry_ms: int | None = _client_ms("`retry.backoff.max.ms`: the lane's producer sends a request again")
    connect_ms: int | None = _client_ms("`socket.connection.setup.timeout.ms`: a client gives up an attempt to connect")
    request_ms: int | None = _client_ms("`request.timeout.ms`: the lane's producer gives up a Produce request")
    linger_ms: int | None = _client_ms("`linger.ms`, where the lane gives it: its producer waits for more records")
    fetch_ms: int | None = _client_ms("`socket.timeout.ms`: a client gives up any other request, such as a fetch")
    delivery_ms: int | None = _client_ms("`message.timeout.ms`: the lane's producer gives up a record")
    recover_within_ms: int | None = _client_ms("`recover_within` of the lane: a bound in place of the sum of time-outs")

    def __post_init__(self) -> None:
        check(self, "timings.")

    @classmethod
    def from_json(cls, entry: object) -> Timings:
        """The time-outs from an entry of timings.json; unknown keys raise `LaneError`, too."""
        return cls(**checked_object(cls, entry, "timings"))

    def to_json(self) -> Mapping[str, Any]:
        """The form of `timings.json`."""
        return {name: value for name, value in asdict(self).items() if value is not None}


def reported_timeouts(reported: object) -> Mapping[str, int]:
    """The time-outs that a client reports for itself, by their names in `Timings`. A time-out of 0 counts as 1 ms.

    Raises `ValueError` for an unknown name, and for a value that is not a number of milliseconds up to a day.
    """
    names = [timing.name for timing in fields(Timings) if timing.default is None and timing.name != "recover_within_ms"]
    if not isinstance(reported, Mapping) or not all(
        name in names and type(value) is int and 0 <= value <= DAY_MS for name, value in reported.items()
    ):
        raise ValueError(f"timeouts: milliseconds were expected, by names such as {', '.join(names)}")
    return {name: max(value, 1) for name, value in reported.items()}


USUAL_TIMINGS = Timings(
    session_ms=9_000,
    election_ms=4_000,
    lag_ms=30_000,
    replica_socket_ms=30_000,
    abort_check_ms=10_000,
    reconnect_ms=10_000,
    retry_ms=1_000,
    connect_ms=30_000,
    request_ms=30_000,
    fetch_ms=60_000,
    delivery_ms=300_000,
)
"""The defaults of librdkafka and of brokers in KRaft mode. Their quorum takes 2 s to miss its leader, 1 s to elect
another and 1 s to try again."""

"""How long a lane may be unavailable: bounds that follow from its time-outs, each with its derivation.

Guarantee: a bound is the sum of all documented time-outs that may have to pass one after the other. No correct broker
or client takes longer, apart from the time in which its process does not run.

If every fault ends its broker's process, connections break at once, and nobody waits for answers. After any other
fault, and without any, requests may hang until they time out, and the leader waits for a follower that hangs until it
drops the follower from the ISR. Sources: documentation of the configurations; KIP-98, KIP-62, KIP-848.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract.lane.groups import Group
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.recovery import RecoveryAnomaly, Timings

BREAKS_CONNECTIONS = frozenset({"kill", "stop", "power-loss"})
"""The kinds of faults that end a broker's process."""
_LAG_FACTOR = 1.5
"""Leaders check every 0.5 `replica.lag.time.max.ms`: a lagging follower is dropped after at most 1.5 of that config."""
_JITTER_FACTOR = 1.5
"""librdkafka waits for up to half a backoff longer than the backoff."""
SHARE_SESSION_MS = 6_000
"""`group.share.session.timeout.ms` of the harness's brokers."""
Parts = tuple[tuple[str, int | None], ...]
"""Time-outs that pass one after the other: the name and the milliseconds of each, None if its length is not known."""


@dataclass(frozen=True, slots=True)
class Bound:
    """How long a recovery may take: the sum of `parts`, each a time-out with its name, in milliseconds."""

    parts: tuple[tuple[str, float], ...]
    allowed: "Bound | None" = None
    """The bound that the time-outs allow, where this one is the lane's own objective (`recover_within`)."""

    @property
    def seconds(self) -> float:
        """The sum in seconds."""
        return sum(milliseconds for _, milliseconds in self.parts) / 1000

    def to_json(self) -> dict[str, Any]:
        """The form of `predict --json`."""
        return {"seconds": self.seconds, "derivation": self.described}

    @property
    def described(self) -> str:
        """The sum and its parts as text."""
        parts = " + ".join(f"{name} {milliseconds / 1000:g} s" for name, milliseconds in self.parts)
        allowed = "" if self.allowed is None else f"; its time-outs allow {self.allowed.described}"
        return f"{self.seconds:g} s ({parts}{allowed})"


def bounds_of(
    lane: Lane, timings: Timings, kinds: Iterable[str], *, followers_hang: bool = True
) -> Mapping[RecoveryAnomaly, Bound]:
    """A lane's bound for each anomaly, during and after faults of these kinds; none where a time-out is not known.

    `followers_hang`: whether these faults may keep a follower from fetching.
    """
    kinds = frozenset(kinds)
    requests_hang = not kinds or not kinds <= BREAKS_CONNECTIONS
    group = lane.group or (None if lane.loop is None else lane.loop.group)
    failover: Parts = (("session", timings.session_ms), ("election", timings.election_ms))
    follower_lag = ("lag of a follower", round(timings.lag_ms * _LAG_FACTOR))
    lag: Parts = (follower_lag,) if requests_hang and followers_hang else ()
    transaction: Parts = ()
    if lane.transactional is not None:
        transaction = (("transaction", lane.transactional.timeout_ms), ("check for time-outs", timings.abort_check_ms))
    reconnect_ms = None if timings.reconnect_ms is None else round(timings.reconnect_ms * _JITTER_FACTOR)
    find_leader: Parts = (("reconnect", reconnect_ms), ("retry", timings.retry_ms))
    connection = ("connection", timings.connect_ms)
    request: Parts = (("request", timings.request_ms), connection) if requests_hang else ()
    fetch: Parts = (("request of a consumer", timings.fetch_ms), connection) if requests_hang else ()
    linger: Parts = () if timings.linger_ms is None else (("linger", timings.linger_ms),)
    producing = failover + lag + request + find_leader + linger + transaction
    consuming = failover + lag + fetch + find_leader + transaction + _rebalance(group)
    parts_of = {
        RecoveryAnomaly.STALLED_PRODUCER: producing + (() if lane.loop is None else _rebalance(lane.loop.group)),
        RecoveryAnomaly.STALLED_CONSUMER: consuming,
        RecoveryAnomaly.ISR_NOT_RESTORED: (*failover, ("fetch of a follower", timings.replica_socket_ms), follower_lag),
    }
    if group is not None:
        parts_of[RecoveryAnomaly.GROUP_NOT_STABLE] = failover + fetch + find_leader + transaction + _rebalance(group)
    if lane.share is not None:
        # A member's acquired record is available again when its lock ends. The next member may be gone, too: two locks.
        share: Parts = (("lock", lane.share.lock_ms), ("session of a member", SHARE_SESSION_MS))
        parts_of[RecoveryAnomaly.SHARE_STALLED] = consuming + share + share
    if lane.transactional is not None:
        parts_of[RecoveryAnomaly.TRANSACTION_NOT_ENDED] = producing
    bounds = {}
    for anomaly, parts in parts_of.items():
        known_parts = tuple((name, float(value)) for name, value in parts if value is not None)
        derived = Bound(known_parts) if len(known_parts) == len(parts) else None
        # `recover_within` bounds what clients wait for, and no client waits for a full ISR.
        objective = None if anomaly == RecoveryAnomaly.ISR_NOT_RESTORED else timings.recover_within_ms
        bound = derived if objective is None else Bound((("recover_within", float(objective)),), derived)
        if bound is not None:
            bounds[anomaly] = bound
    return bounds


def _rebalance(group: Group | None) -> Parts:
    """The longest rebalance: until a member's absence is noticed, and then until each other member polls again."""
    if group is None:
        return ()
    return ("session of a member", group.session_timeout_ms), ("poll of a member", group.max_poll_interval_ms)

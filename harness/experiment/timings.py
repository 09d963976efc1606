"""The time-outs of an experiment's lanes: as the experiment sets them, else defaults of harness, Kafka and clients.

If brokers differ, or a lane's producers from its consumers, the longest time-out counts: no bound may be too short. The
time-outs of an application and of a user's own command are unknown, unless the command reports them when it is ready.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.configuration import dotted
from kafka_chaos.contract.lane.metadata import ZOOKEEPER
from kafka_chaos.contract.lane.recovery import DAY_MS, USUAL_TIMINGS, RecoveryAnomaly, Timings
from kafka_chaos.contract.run_directory import FORMAT_VERSION
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS, parse_client
from kafka_chaos.harness.cluster.configuration.keys import DEFAULTS
from kafka_chaos.harness.cluster.configuration.layout import ClusterLayout
from kafka_chaos.harness.experiment.known_configs import brokers_configs
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.experiment.specs import Experiment
from kafka_chaos.reference_model.recovery import bounds_of

_LONGEST_PATIENCE_S = 300.0
_KAFKAS_DEFAULTS: Mapping[str, int] = {
    "controller.quorum.election.backoff.max.ms": 1_000,
    "controller.quorum.fetch.timeout.ms": 2_000,
    "replica.lag.time.max.ms": USUAL_TIMINGS.lag_ms,
    "replica.socket.timeout.ms": USUAL_TIMINGS.replica_socket_ms,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": USUAL_TIMINGS.abort_check_ms,
}
"""Kafka's defaults for brokers, where the harness has none. Before 2.5, `replica.lag.time.max.ms` was 10 s: the longer
time-out counts for every version."""
_KAFKA_PYTHON_BEFORE_3 = ("kafka-python 1.", "kafka-python 2.")
_CLIENT_KEYS = {
    "reconnect_ms": "reconnect.backoff.max.ms",
    "retry_ms": "retry.backoff.max.ms",
    "connect_ms": "socket.connection.setup.timeout.ms",
    "request_ms": "request.timeout.ms",
    "fetch_ms": "socket.timeout.ms",
}
"""For each time-out's name in timings.json: the key that sets it for a client, as librdkafka calls the key."""
_PAUSE = "retry.backoff.ms"
_LIBRDKAFKA_KEYS = ("socket.connection.setup.timeout.ms", "socket.timeout.ms")
"""Keys that other clients lack, or understand differently."""
_BROKER_TIMEOUTS = ("zookeeper.session.timeout.ms", "broker.session.timeout.ms", "replica.lag.time.max.ms")
_PRODUCER_TIMEOUTS = ("socket.timeout.ms", "request.timeout.ms", "message.timeout.ms", "delivery.timeout.ms")
_LANE_TIMEOUTS = (("transactional", "timeout_ms"), ("group", "session_timeout_ms"))  # key of a lane, key in its mapping
DURATION_FACTORS = (0.9, 1.1, 1.5, 2.0)
"""Durations of faults as multiples of a time-out: just below it, above it, and long enough for its consequences."""


def timings_document(experiment: Experiment, applications: Collection[str]) -> dict[str, Any]:
    """The content of timings.json. `applications`: the lanes whose clients belong to an application under test."""
    cluster = experiment.cluster.as_layout()
    lanes = {
        spec.lane: timings_of(spec, cluster, has_application=spec.lane in applications).to_json()
        for spec in experiment.lane_specs
    }
    return {"format_version": FORMAT_VERSION, "lanes": lanes}


def patience_of(lanes: Iterable[LaneSpec], cluster: ClusterLayout) -> dict[str, float]:
    """For each lane, how many seconds to wait for a consumer that reads nothing: the bound of `stalled_consumer`.

    A run that ended earlier could neither show nor exclude a stall. Lanes with a bound of more than five minutes are
    left out. So are lanes in which a read_committed consumer may wait for a transaction that hangs, or a member for its
    group: such waits have bounds of their own.
    """
    patience = {}
    for lane in lanes:
        bound = bounds_of(lane.as_lane(()), timings_of(lane, cluster), kinds=()).get(RecoveryAnomaly.STALLED_CONSUMER)
        waits_for_leaders_only = lane.transactional is None and lane.loop is None and lane.group is None
        if bound is not None and waits_for_leaders_only and bound.seconds <= _LONGEST_PATIENCE_S:
            patience[lane.lane] = bound.seconds
    return patience


def broker_timeouts(cluster: ClusterLayout, key: str) -> list[int]:
    """The time-out that `key` sets, in milliseconds, for each broker: from its configuration, or the default."""
    group = "brokers_with_zookeeper" if cluster.metadata_mode == ZOOKEEPER else "kraft"
    default = DEFAULTS[group].get(key, _KAFKAS_DEFAULTS.get(key))
    return [int(str(configs.get(key, default))) for configs in brokers_configs(cluster)]


def timings_of(lane: LaneSpec, cluster: ClusterLayout, *, has_application: bool = False) -> Timings:
    """The time-outs of a lane in this cluster. `has_application`: an application replaces the lane's clients."""

    def longest(key: str) -> int:
        return max(broker_timeouts(cluster, key))

    delivery = None
    if not has_application and parse_client(lane.client) is None:  # None: the harness's own client
        message_timeout = lane.producer_configs.get("message.timeout.ms", USUAL_TIMINGS.delivery_ms)
        delivery = int(str(lane.producer_configs.get("delivery.timeout.ms", message_timeout))) or DAY_MS  # 0: never
    linger_keys = ("linger.ms", "queue.buffering.max.ms")
    lingers = (value for key, value in lane.producer_configs.items() if dotted(key) in linger_keys)
    if cluster.metadata_mode == ZOOKEEPER:
        session = election = longest("zookeeper.session.timeout.ms")
    else:
        session = longest("broker.session.timeout.ms")
        quorum = ("fetch.timeout.ms", "election.timeout.ms", "election.backoff.max.ms")
        election = sum(longest(f"controller.quorum.{key}") for key in quorum)
    return Timings(
        session_ms=session,
        election_ms=election,
        lag_ms=longest("replica.lag.time.max.ms"),
        replica_socket_ms=longest("replica.socket.timeout.ms"),
        abort_check_ms=longest("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        linger_ms=max((_milliseconds("linger.ms", linger) for linger in lingers if linger), default=0) or None,
        delivery_ms=min(delivery, DAY_MS) if delivery else delivery,
        recover_within_ms=None if lane.recover_within is None else round(lane.recover_within * 1000),
        **({} if has_application else _client_times(lane)),
    )


def _client_times(lane: LaneSpec) -> dict[str, int]:
    """The time-outs of `_CLIENT_KEYS` for the clients of a lane, in milliseconds; none for a user's own command."""
    client = parse_client(lane.client)
    kind = KINDS[IN_PROCESS] if client is None else client.kind
    producers, consumers = (
        {dotted(key): value for key, value in configs.items() if kind.name == IN_PROCESS or key not in _LIBRDKAFKA_KEYS}
        for configs in (lane.producer_configs, lane.consumer_configs)
    )
    if kind.name != IN_PROCESS and "request.timeout.ms" in consumers:
        # Only librdkafka has socket.timeout.ms: other libraries time out a fetch like every other request.
        consumers["socket.timeout.ms"] = consumers["request.timeout.ms"]
    times = {}
    for name, default in kind.timeouts.items():
        roles = (producers,) if name == "request_ms" else (producers, consumers)
        key = _CLIENT_KEYS[name]
        configured = (_milliseconds(key, configs[key]) for configs in roles if key in configs)
        times[name] = max(configured, default=default)
        if name == "retry_ms":  # Before KIP-580, this is the whole pause.
            pauses = (_milliseconds(_PAUSE, configs[_PAUSE]) for configs in roles if _PAUSE in configs)
            times[name] = max((times[name], *pauses))
    if kind.name == "kafka-python" and str(client).startswith(_KAFKA_PYTHON_BEFORE_3):
        # Older consumers of kafka-python let every request time out after 305 s: a JoinGroup may wait for 300 s.
        times["fetch_ms"] = 305_000
    return times


def _milliseconds(key: str, value: object) -> int:
    try:
        return math.ceil(float(str(value)))
    except (ValueError, OverflowError):
        raise LaneError(key, value, "a number of milliseconds") from None


def timeouts_for_faults(lanes: object, cluster: object) -> list[float]:
    """The time-outs in seconds around which durations of faults are drawn, each once, in order.

    They are the time-outs of sessions and lags, and of the lanes' requests, records, transactions and groups. The file
    that `lanes` and `cluster` come from is not checked yet: a value that is not a number is skipped, and refused later.
    """

    def configs_in(holder: object, name: str) -> Mapping[str, Any]:
        configs = holder.get(name) if isinstance(holder, Mapping) else None
        return configs if isinstance(configs, Mapping) else {}

    configured = configs_in(cluster, "broker_configs")
    brokers = {**_KAFKAS_DEFAULTS, **DEFAULTS["brokers_with_zookeeper"], **DEFAULTS["kraft"], **configured}
    times_ms = [brokers[key] for key in _BROKER_TIMEOUTS]
    for lane in lanes if isinstance(lanes, list) else ():
        if isinstance(lane, Mapping):
            configs = {"request.timeout.ms": USUAL_TIMINGS.request_ms, **configs_in(lane, "producer_configs")}
            times_ms += [configs[key] for key in _PRODUCER_TIMEOUTS if key in configs]
            times_ms += [configs_in(lane, key)[name] for key, name in _LANE_TIMEOUTS if name in configs_in(lane, key)]
    texts = [str(value) for value in times_ms]
    return sorted({float(text) / 1000 for text in texts if text.isdecimal() and 0 < float(text) < math.inf})

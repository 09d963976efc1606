"""The time-outs that matter to the lanes of a phase: faults that last a little longer show what they change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kafka_chaos.harness.cluster.configuration.server_properties import DEFAULTS

_OF_BROKERS = ("zookeeper.session.timeout.ms", "broker.session.timeout.ms", "replica.lag.time.max.ms")
_OF_PRODUCERS = ("request.timeout.ms", "message.timeout.ms", "delivery.timeout.ms", "transaction.timeout.ms")
_USUAL = {"replica.lag.time.max.ms": 30_000, "request.timeout.ms": 30_000}
FACTORS = (0.9, 1.1, 1.5, 2.0)
"""How long a fault lasts, in time-outs: just below one, above it, and long enough for what comes of it."""


def timeouts_of(lanes: object, cluster: object) -> list[float]:
    """In seconds, each once: of sessions, of lags, and of the requests, records, transactions and groups of lanes.

    The values may be wrong: those that are no numbers are left out here, and refused by the experiment's check.
    """
    given = [cluster.get("broker_configs", {})] if isinstance(cluster, Mapping) else []
    brokers = [_USUAL, DEFAULTS["brokers_with_zookeeper"], DEFAULTS["kraft"], *given]
    found = {key: configs[key] for configs in brokers for key in _OF_BROKERS if key in configs}
    values = [
        *found.values(),
        *(value for lane in (lanes if isinstance(lanes, list) else ()) for value in _of_lane(lane)),
    ]
    return sorted({float(value) / 1000 for value in values if str(value).isdecimal() and int(value) > 0})


def _of_lane(lane: object) -> Iterator[object]:
    if not isinstance(lane, Mapping):
        return
    configs = {**_USUAL, **lane.get("producer_configs", {})}
    yield from (configs[key] for key in _OF_PRODUCERS if key in configs)
    for key, name in (("transactional", "timeout_ms"), ("group", "session_timeout_ms")):
        settings = lane.get(key)
        if isinstance(settings, Mapping) and name in settings:
            yield settings[name]

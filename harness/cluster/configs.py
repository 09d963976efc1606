"""Broker and topic configuration keys: passed through as they are, unknown ones refused with the nearest known name.

A broker only warns of a key that it does not know, and then runs without it: an experiment with a misspelt key would
measure something else than it says. The keys are those that Kafka's own classes list (`benchmarks/config_keys.py`
writes them from the image).
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from kafka_chaos.contract.errors import UsageFailure

OWNED_BROKER_KEYS = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "control.plane.listener.name",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "zookeeper.connect",
    }
)
"""Keys that the harness sets itself: an experiment may not."""

AUTHORIZER_KEYS = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Keys of brokers that belong to Kafka's authorizer, which no class lists."""


@cache
def known_keys(kind: str) -> frozenset[str]:
    """The configuration keys of a `broker` or a `topic` of the Kafka version in config_keys.json."""
    listed = json.loads(files("kafka_chaos.harness.cluster").joinpath("config_keys.json").read_text())
    return frozenset(listed[kind])


def check_keys(kind: str, configs: Mapping[str, object], *, owned: frozenset[str] = frozenset()) -> None:
    """Refuse the first key that a `broker` or a `topic` does not have, or that is the harness's own."""
    for key in configs:
        if key in owned:
            raise UsageFailure(f"{kind} configuration {key}: set by the harness itself, it can't be given")
        known = key in known_keys(kind) or (kind == "broker" and key in AUTHORIZER_KEYS)
        if not known and not key.startswith("listener.name."):
            near = difflib.get_close_matches(key, known_keys(kind), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageFailure(f"{kind} configuration {key}: Kafka has no such key{hint}")

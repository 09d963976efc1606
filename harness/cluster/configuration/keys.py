"""The configuration keys of each version of Kafka, the keys that only the harness may set, and the harness's defaults.

A broker only warns of an unknown key, and runs without it; `check_keys` refuses it and names the most similar key.
`keys.json` has the keys that Kafka's configuration classes list, each with the first and the last supported version
that has it, where null stands for the newest (`benchmarks/versions.py --keys` writes the file).
"""

import difflib
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import package_text, package_toml
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION
from kafka_chaos.harness.cluster.containers.versions import known_version

DEFAULTS: Mapping[str, Any] = package_toml(__package__, "defaults.toml")
"""The content of defaults.toml: properties by group of servers, and `owned`, a list of brokers' keys."""
OWNED_BROKER_KEYS = frozenset(DEFAULTS["owned"])
"""Broker keys that only the harness may set."""
AUTHORIZER_KEYS = frozenset({"allow.everyone.if.no.acl.found", "super.users"})
"""Broker keys of Kafka's authorizer, which none of Kafka's configuration classes lists."""
_WHOLE_NUMBER_ENDINGS = (".ms", ".delivery.count.limit")
"""Keys with these endings must have whole numbers, since the harness compares some values with a lane's settings."""


@cache
def keys_of_all_versions(kind: str) -> Mapping[str, Any]:
    """For each key of the `kind` (`broker` or `topic`): the first and the last version with it, as in keys.json."""
    return cast("Mapping[str, Any]", json.loads(package_text(__package__, "keys.json"))[kind])


@cache
def known_keys(kind: str, kafka_version: str = KAFKA_VERSION) -> frozenset[str]:
    """The keys of the `kind` (`broker` or `topic`) in a version of Kafka."""
    version = known_version(kafka_version)
    return frozenset(
        key
        for key, (first, last) in keys_of_all_versions(kind).items()
        if version.at_least(first) and (last is None or known_version(last).at_least(kafka_version))
    )


def check_keys(
    kind: str,
    configs: Mapping[str, object],
    *,
    owned: frozenset[str] = frozenset(),
    kafka_version: str = KAFKA_VERSION,
    metadata_mode: str | None = None,
) -> None:
    """Raise `UsageFailure` for the first key that the `kind` (`broker` or `topic`) does not have, that only the harness
    may set (`owned`, for brokers also `OWNED_BROKER_KEYS`), or whose value is not the whole number that it must be."""
    owned = owned | OWNED_BROKER_KEYS if kind == "broker" else owned
    for key, value in configs.items():
        if key.endswith(_WHOLE_NUMBER_ENDINGS) and not re.fullmatch(r"-?[0-9]+", str(value)):
            raise UsageFailure(f"{kind} configuration {key}: expected a whole number, got {value!r}")
        if key in owned:
            raise UsageFailure(f"{kind} configuration {key}: set by the harness itself: leave it out")
        if key.startswith("zookeeper.") and metadata_mode == KRAFT:
            raise UsageFailure(f"{kind} configuration {key}: a cluster in KRaft mode has no ZooKeeper")
        names = known_keys(kind, kafka_version)
        is_known = key in names or (kind == "broker" and key in AUTHORIZER_KEYS)
        # Kafka's classes don't list the keys of a single listener, which have this prefix.
        if not is_known and not key.startswith("listener.name."):
            similar = difflib.get_close_matches(key, names, n=1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            release = "Kafka" if kafka_version == KAFKA_VERSION else f"Kafka {kafka_version}"
            raise UsageFailure(f"{kind} configuration {key}: {release} has no such key{hint}")

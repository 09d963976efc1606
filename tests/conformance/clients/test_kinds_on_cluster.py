"""Every kind of client passes the conformance kit, on brokers of the oldest and the newest supported line."""

from pathlib import Path

import pytest

from kafka_chaos.harness.clients.kinds import KINDS, TRANSACTIONAL, parse_client
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from tests.clusters import NEWEST, PLAIN
from tests.conformance.clients.checks import CHECKS, TRANSACTIONS, problems
from tests.faults.on_brokers import in_both_modes

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ALL = ("librdkafka 2.3.0", "java 4.1.1", *(f"{kind.name} {kind.version}" for kind in KINDS.values()))

layout = in_both_modes(PLAIN, NEWEST)


@pytest.mark.parametrize("name", ALL)
def test_every_kind_passes_the_kit(name: str, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    client = parse_client(name)
    assert client is not None
    checks = [check for check in CHECKS if check != TRANSACTIONS or TRANSACTIONAL in client.kind.roles]
    assert problems(client, cluster, admin, tmp_path, checks) == dict.fromkeys(checks, "")

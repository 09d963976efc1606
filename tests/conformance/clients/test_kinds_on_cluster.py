"""Every kind of client passes the conformance kit, on brokers of the oldest and the newest supported line."""

from pathlib import Path

import pytest

from kafka_chaos.harness.clients.kinds import KINDS, TRANSACTIONAL, chosen
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster, ClusterLayout
from tests.clusters import NEWEST, PLAIN, mode_of
from tests.conformance.clients.checks import CHECKS, TRANSACTIONS
from tests.conformance.clients.kits import kit_for, played

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

ALL = ("librdkafka 2.3.0", "java 4.1.1", *(f"{kind.name} {kind.version}" for kind in KINDS.values()))


@pytest.fixture(scope="module", params=[PLAIN, NEWEST], ids=mode_of)
def layout(request: pytest.FixtureRequest) -> ClusterLayout:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", ALL)
def test_every_kind_passes_the_kit(name: str, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    client = chosen(name)
    assert client is not None
    checks = [check for check in CHECKS if check != TRANSACTIONS or TRANSACTIONAL in client.kind.roles]
    assert played(kit_for(client, cluster, admin, tmp_path), cluster, *checks) == dict.fromkeys(checks, "")

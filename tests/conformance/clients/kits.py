"""The conformance kit, on a cluster that is whole again afterwards."""

from pathlib import Path

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.clients.kinds import ChosenClient, OwnClient
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from tests.conformance.clients.checks import checked
from tests.conformance.clients.kit import Kit


def kit_for(client: ChosenClient | OwnClient, cluster: Cluster, admin: ClusterAdmin, folder: Path) -> Kit:
    # Not the controller: a frozen controller's session could expire, and another story begin.
    broker = cluster.brokers[2 if admin.controller() != 2 else 3]
    return Kit(client.command, cluster.bootstrap_servers, admin, broker, folder)


def played(kit: Kit, cluster: Cluster, *names: str) -> dict[str, str]:
    """The problem by check; empty where one passes."""
    found = dict(checked(kit, names))
    numbers = set(cluster.brokers)
    wait_until(lambda: cluster.registered_brokers() == numbers, "all brokers to be registered", timeout=60)
    return found

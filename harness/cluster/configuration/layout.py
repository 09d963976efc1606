"""The layout of a cluster, checked before anything starts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure, counted
from kafka_chaos.contract.lane.lanes import INTERNAL_REPLICAS
from kafka_chaos.contract.lane.metadata import KRAFT, METADATA_MODES, ZOOKEEPER
from kafka_chaos.harness.cluster.configuration.keys import check_keys
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION
from kafka_chaos.harness.cluster.containers.network import is_ipv4
from kafka_chaos.harness.cluster.containers.versions import KafkaVersion, check_version, oldest_of
from kafka_chaos.harness.cluster.security import PLAINTEXT, SECURITY_MODES

FIRST_TIERED = "3.9"
"""The first version whose tiered storage (KIP-405) is for production."""
MIN_DISK_MIB = 256
USUAL_DISK_MIB = 4096
"""The default size of a disk. The file behind a disk is sparse, so unused space takes no room on this machine."""
ADVERTISE = "KAFKA_CHAOS_ADVERTISE"
"""The environment variable with the host that brokers advertise by default."""
ONLY_ON_ENGINES_MACHINE = (
    "disks, links and clocks are made on the engine's own machine, by a kafka-chaos that runs there"
)
"""The reason why a layout with `advertise`, whose engine is on another machine, can't have any of these."""


def valid_host(host: str) -> str:
    """The host, if brokers can advertise it; raises `ValueError`."""
    # A name has a letter somewhere: digits and dots alone are an IPv4 address, maybe a wrong one.
    is_name = re.fullmatch(r"(?=.*[a-zA-Z])[a-zA-Z0-9]([a-zA-Z0-9.-]{0,251}[a-zA-Z0-9])?", host)
    if not is_name and (not is_ipv4(host) or host == "0.0.0.0"):
        raise ValueError(f"{host!r} is not valid: expected a host name or an IPv4 address, without a port")
    return host


def checked_host(name: str, host: str | None) -> str | None:
    """The host, None if empty. Raises `UsageFailure` for an invalid host. `name`: the host's option or variable."""
    try:
        return valid_host(host) if host else None
    except ValueError as error:
        raise UsageFailure(f"{name}: {error}") from None


def usual_host() -> str | None:
    """The host that brokers advertise unless a layout names another; None: 127.0.0.1, this machine."""
    return checked_host(ADVERTISE, os.environ.get(ADVERTISE))


@dataclass(frozen=True, kw_only=True)
class ClusterLayout:
    """The layout of a cluster.

    `metadata_mode`: `zookeeper`, with an ensemble of `zookeepers` (None: 1), or `kraft`, with `controllers` nodes that
    are only controllers (0: brokers are controllers, too). `migration_controllers`: the number of controllers to which
    a cluster with ZooKeeper can migrate; the migration starts them. `elr`: whether a partition's leader may be elected
    from its eligible leader replicas (KIP-966); None: the version's default.
    `broker_configs` go to every broker and to KRaft's controllers, `configs_of` to single brokers by id, both in
    Kafka's own key names. `assume`: keys among them that the user allows, though the model does not know their effect;
    anomalies that may depend on them are not judged. `broker_versions`: versions of single brokers by id; all brokers
    speak the oldest version's protocol, with its feature levels, as during a rolling upgrade.
    `controller`: in ZooKeeper mode, the broker that becomes controller, since it is started first; None: any broker.
    With two `log_directories`, a broker survives the loss of one (`BROKER_DATA`, `SECOND_BROKER_DATA`). `disk_mib`: the
    MiB of each broker's and controller's own disk for its log directories, which storage faults need; 0: none.
    `links`: every connection to a broker or controller passes a link (`faults/links/relay/`). `clocks`: every node has
    a wall clock that can be moved (`faults/clock/process_clock.py`). `tiered_storage`: brokers share a remote store
    (`remote_store/`), to which they copy segments of tiered topics. `security` is how clients connect: `plaintext`,
    `sasl_ssl` (SCRAM-SHA-512 over TLS) or `mtls` (TLS with client certificates). `advertise`: the host or IPv4 address
    of the engine's machine, if it is not this one: ports are published there, and brokers advertise it.
    """

    brokers: int = 3
    metadata_mode: str = ZOOKEEPER
    zookeepers: int | None = None
    controllers: int = 0
    migration_controllers: int = 0
    kafka_version: str = KAFKA_VERSION
    broker_versions: Mapping[int, str] = field(default_factory=dict)
    elr: bool | None = None
    controller: int | None = None
    broker_configs: Mapping[str, object] = field(default_factory=dict)
    configs_of: Mapping[int, Mapping[str, object]] = field(default_factory=dict)
    assume: Sequence[str] = ()
    log_directories: int = 1
    disk_mib: int = 0
    links: bool = False
    clocks: bool = False
    tiered_storage: bool = False
    security: str = PLAINTEXT
    advertise: str | None = field(default_factory=usual_host)

    def __post_init__(self) -> None:
        for refusal in self._refusals():
            raise UsageFailure(refusal)

    def at_least(self, version: str) -> bool:
        """Whether all brokers are of this version of Kafka, or later."""
        return self.oldest.at_least(version)

    def _refusals(self) -> Iterator[str]:
        """The problems of the layout, a sentence each. Only the first is raised: later checks rely on earlier ones."""
        mode, brokers = self.metadata_mode, range(1, self.brokers + 1)
        if self.security not in SECURITY_MODES:
            yield f"security: {self.security!r} is not valid: expected {', '.join(SECURITY_MODES)}"
        if mode not in METADATA_MODES:
            yield f"metadata_mode: {mode!r} is not valid: expected {' or '.join(METADATA_MODES)}"
        check_version(self.kafka_version, mode)
        for broker, of_broker in self.broker_versions.items():
            if broker not in brokers:
                yield f"broker_versions: {broker} is not a broker: expected 1 to {self.brokers}"
            check_version(of_broker, mode)
        if not 1 <= self.brokers <= 9:
            yield f"brokers: {self.brokers} is not valid: expected 1 to 9"
        if self.log_directories not in (1, 2):
            yield f"log_directories: {self.log_directories} is not valid: expected 1 or 2"
        if self.disk_mib and self.disk_mib < MIN_DISK_MIB:
            yield f"disk_mib: {self.disk_mib} is not valid: expected at least {MIN_DISK_MIB}, or 0"
        if self.advertise is not None:
            yield from self._refusals_with_advertise(self.advertise)
        yield from self._refusals_with_kraft() if mode == KRAFT else self._refusals_with_zookeeper()
        invalid_security = f"security: {self.security} is not valid"
        if self.links and self.security != PLAINTEXT:
            why = "where connections pass links, which can't read what is encrypted"
            yield f"{invalid_security} {why}: expected {PLAINTEXT}"
        if self.elr and not self.oldest.has_elr_by_default:
            lacking = f"Kafka {self.oldest.number} has no eligible leader replicas by default"
            yield f"elr: true is not valid: {lacking}: expected 4.1 or later"
        if self.tiered_storage and not self.at_least(FIRST_TIERED):
            yield f"tiered_storage: true is not valid: expected Kafka {FIRST_TIERED} or later (KIP-405)"
        for version in self.versions:
            check_keys("broker", self.broker_configs, kafka_version=version.number, metadata_mode=mode)
        for broker, configs in self.configs_of.items():
            if broker not in brokers:
                yield f"configs_of: {broker} is not a broker: expected 1 to {self.brokers}"
            check_keys("broker", configs, kafka_version=self.version_of(broker).number, metadata_mode=mode)

    def _refusals_with_advertise(self, host: str) -> Iterator[str]:
        try:
            valid_host(host)
        except ValueError as error:
            yield f"advertise: {error}"
        on_engines_machine = {"disk_mib": self.disk_mib, "links": self.links, "clocks": self.clocks}
        for key, value in on_engines_machine.items():
            if value:
                yield f"{key}: {str(value).lower()} is not valid with advertise: {ONLY_ON_ENGINES_MACHINE}"

    def _refusals_with_kraft(self) -> Iterator[str]:
        if self.zookeepers:
            yield f"zookeepers: {self.zookeepers} is not valid: a cluster in KRaft mode has none"
        if self.migration_controllers:
            yield "migration_controllers: a cluster in KRaft mode has nowhere to migrate to: leave it out"
        if self.controllers not in (0, 1, 3):
            yield f"controllers: {self.controllers} is not valid: expected 0, 1 or 3"
        if self.controller is not None:
            why = "in KRaft mode the controllers elect the active one; leave it out"
            yield f"controller: {self.controller} is not valid: {why}"

    def _refusals_with_zookeeper(self) -> Iterator[str]:
        invalid_security = f"security: {self.security} is not valid"
        if self.zookeepers not in (None, 1, 3):
            yield f"zookeepers: {self.zookeepers} is not valid: expected 1 or 3"
        if self.controllers:
            why = f"in ZooKeeper mode a broker is controller; set metadata_mode to {KRAFT}"
            yield f"controllers: {self.controllers} is not valid: {why}"
        if self.migration_controllers not in (0, 1, 3):
            yield f"migration_controllers: {self.migration_controllers} is not valid: expected 0, 1 or 3"
        if self.migration_controllers:
            if any(KRAFT not in version.modes for version in (self.version, *self.versions)):
                yield f"migration_controllers: kafka-chaos supports no KRaft mode of Kafka {self.oldest.number}"
            if self.security != PLAINTEXT:
                yield f"{invalid_security} with migration_controllers: expected {PLAINTEXT}"
            if self.links:
                yield "links: true is not valid with migration_controllers: these controllers have no links"
        if self.security != PLAINTEXT and not self.at_least("2.7"):  # KIP-651
            why = f"Kafka {self.oldest.number} reads no certificates in PEM"
            yield f"{invalid_security}: {why}; expected {PLAINTEXT}, or Kafka 2.7 and later"
        if self.controller is not None and not 1 <= self.controller <= self.brokers:
            yield f"controller: {self.controller} is not a broker: expected 1 to {self.brokers}"

    @property
    def version(self) -> KafkaVersion:
        """The version of ZooKeeper's or the controllers' image, and of all brokers without a version of their own."""
        return check_version(self.kafka_version, self.metadata_mode)

    def version_of(self, broker: int) -> KafkaVersion:
        """A broker's version."""
        return check_version(self.broker_versions.get(broker, self.kafka_version), self.metadata_mode)

    @property
    def versions(self) -> tuple[KafkaVersion, ...]:
        """The versions of all brokers and of KRaft's controllers, each once, in the brokers' order."""
        brokers = [self.version_of(broker) for broker in range(1, self.brokers + 1)]
        return tuple(dict.fromkeys([*brokers, self.version] if self.controllers else brokers))

    @property
    def is_mixed(self) -> bool:
        """Whether the nodes run several versions."""
        return len(self.versions) > 1

    @property
    def oldest(self) -> KafkaVersion:
        """The oldest version, which limits what the whole cluster can do."""
        return oldest_of(self.versions)

    @property
    def protocol_configs(self) -> dict[str, str]:
        """Keys that make brokers of several versions speak the oldest version's protocol (Kafka's upgrade guide)."""
        if not self.is_mixed:
            return {}
        keys = ["inter.broker.protocol.version"]
        if not self.oldest.at_least("3.0"):
            keys.append("log.message.format.version")
        return dict.fromkeys(keys, self.oldest.inter_broker_protocol)

    @property
    def metadata_servers(self) -> int:
        """How many nodes there are besides the brokers: ZooKeeper servers, or dedicated controllers."""
        return self.controllers if self.metadata_mode == KRAFT else self.zookeepers or 1

    @property
    def voters(self) -> int:
        """How many controllers form the quorum: 0 in ZooKeeper mode; at most 3 if brokers are the controllers."""
        return 0 if self.metadata_mode == ZOOKEEPER else self.controllers or min(3, self.brokers)

    @property
    def internal_replicas(self) -> int:
        """How many replicas the partitions of Kafka's own topics have by default."""
        return min(INTERNAL_REPLICAS, self.brokers)

    @property
    def elects_from_elr(self) -> bool | None:
        """Whether leaders may be elected from eligible leader replicas; None in ZooKeeper mode, which has none."""
        if self.metadata_mode == ZOOKEEPER:
            return None
        return self.oldest.has_elr_by_default if self.elr is None else self.elr

    def missing_extras(self, wanted: ClusterLayout) -> str | None:
        """Which of the `wanted` layout's disks, links and clocks this layout lacks, and what to do; else None."""
        if wanted.disk_mib > self.disk_mib:
            size = wanted.disk_mib
            lacking = f"a fault breaks disks, and the cluster's brokers have none of {size} MiB"
            return f"{lacking}: start it with disk_mib={size}"
        if wanted.links and not self.links:
            return "a fault acts on single requests, and the cluster has no links: start it with links"
        if wanted.clocks and not self.clocks:
            return "a fault moves clocks, and the cluster's clocks can't be moved: start it with clocks"
        return None

    def satisfies(self, wanted: ClusterLayout) -> bool:
        """Whether this is the `wanted` layout, or has disks, links or clocks besides."""
        no_extras: Mapping[str, Any] = {"disk_mib": 0, "links": False, "clocks": False}
        return self.missing_extras(wanted) is None and replace(self, **no_extras) == replace(wanted, **no_extras)

    @property
    def described(self) -> str:
        """The nodes, version, metadata mode and extras in words, such as a run prints at its start."""
        owners = "each broker and controller" if self.controllers else "each broker"
        disks = f", {owners} with a disk of its own" if self.disk_mib else ""
        links = ", every connection through a link" if self.links else ""
        clocks = ", with clocks that can be moved" if self.clocks else ""
        store = ", with a remote store" if self.tiered_storage else ""
        reached = f", reached at {self.advertise}" if self.advertise is not None else ""
        return f"{self._nodes}{disks}{links}{clocks}{store}{reached}"

    @property
    def _nodes(self) -> str:
        brokers = counted(self.brokers, "broker")
        versions = " and ".join(version.number for version in self.versions)
        if self.metadata_mode == ZOOKEEPER:
            return f"{self.metadata_servers} ZooKeeper and {brokers} of Kafka {versions}"
        if self.controllers:
            nodes = f"{counted(self.controllers, 'controller')} and {brokers}"
        elif self.brokers == 1:
            nodes = f"{brokers} that is the controller too,"
        elif self.voters == self.brokers:
            nodes = f"{brokers} that are controllers too,"
        else:
            nodes = f"{brokers}, {self.voters} of them controllers too,"
        return f"{nodes} of Kafka {versions} (KRaft)"

"""The supported versions of Kafka, which versions.toml lists with their metadata modes and the jars that they lack."""

from collections.abc import Iterable
from dataclasses import dataclass

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.metadata import KRAFT, METADATA_MODES, USUAL_VERSION, ZOOKEEPER, elects_from_elr


@dataclass(frozen=True, slots=True)
class KafkaVersion:
    """A release on Maven Central that this project was tried with in each of the metadata `modes`, on Java 17.

    `scala`: the version of Scala in the artifacts' names. `extra_jars`: jars, as group:artifact:version, that the
    release's artifacts lack, or have in a version that does not run on Java 17.
    """

    number: str
    modes: tuple[str, ...]
    scala: str
    extra_jars: tuple[str, ...]

    def at_least(self, number: str) -> bool:
        """Whether this is version `number` or a later one; only the parts that `number` has are compared."""
        wanted = _parts(number)
        return _parts(self.number)[: len(wanted)] >= wanted

    @property
    def inter_broker_protocol(self) -> str:
        """This version's `inter.broker.protocol.version`: its number without the patch, the fourth part of 0.10.2.2."""
        parts = self.number.split(".")
        return ".".join(parts[: 3 if parts[0] == "0" else 2])

    @property
    def has_elr_by_default(self) -> bool:
        """Whether a new cluster in KRaft mode elects from the eligible leader replicas (KIP-966)."""
        return elects_from_elr(self.number, KRAFT, None)

    @property
    def has_control_plane(self) -> bool:
        """Whether the controller's requests can have a listener of their own (KIP-291)."""
        return self.at_least("2.2")

    @property
    def has_idempotence(self) -> bool:
        """Whether it has idempotent producers, and message format v2 with record headers (KIP-98, KIP-82)."""
        return self.at_least("0.11")


VERSIONS = {
    number: KafkaVersion(number, tuple(entry["modes"]), entry.get("scala", "2.13"), tuple(entry.get("extra_jars", ())))
    for number, entry in package_toml(__package__, "versions.toml").items()
}
"""The supported versions by number, the newest first."""


def usual_version(mode: str) -> str:
    """The default version of a cluster in this metadata mode: in KRaft mode the newest."""
    return USUAL_VERSION if mode == ZOOKEEPER else next(iter(VERSIONS))


def oldest_of(versions: Iterable[KafkaVersion]) -> KafkaVersion:
    """The version with the lowest number."""
    return min(versions, key=lambda version: _parts(version.number))


def known_version(number: str) -> KafkaVersion:
    """The supported version with this number; raises `UsageFailure`, which lists all, if there is none."""
    if number not in VERSIONS:
        raise UsageFailure(f"version {quoted(number)} of Kafka is not known: expected one of {', '.join(VERSIONS)}")
    return VERSIONS[number]


def parse_cluster(text: str) -> dict[str, str]:
    """The keys of an experiment's `cluster` for a text VERSION/MODE; raises `UsageFailure` if it can't be run."""
    number, slash, mode = text.partition("/")
    if not slash or mode not in METADATA_MODES:
        raise UsageFailure(f"{quoted(text)}: expected VERSION/MODE, such as 4.2.0/kraft or 3.9.1/zookeeper")
    return {"kafka_version": check_version(number, mode).number, "metadata_mode": mode}


def check_version(number: str, mode: str) -> KafkaVersion:
    """The version, if it can be run in this metadata mode; else raises `UsageFailure` with the versions that can."""
    version = known_version(number)
    if mode in version.modes:
        return version
    if mode == ZOOKEEPER:
        problem = f"has no ZooKeeper: set metadata_mode to {KRAFT}, or choose"
    else:
        problem = "can't be run in KRaft mode by kafka-chaos: expected"
    allowed = ", ".join(other.number for other in VERSIONS.values() if mode in other.modes)
    raise UsageFailure(f"version {quoted(number)} of Kafka {problem} one of {allowed}")


def _parts(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in number.split("."))

"""The key `cluster` of an experiment."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.metadata import KRAFT
from kafka_chaos.harness.cluster.configuration.layout import ADVERTISE, ClusterLayout, usual_host, valid_host
from kafka_chaos.harness.cluster.containers.image import KAFKA_VERSION
from kafka_chaos.harness.cluster.containers.versions import known_version, usual_version
from kafka_chaos.harness.experiment.values import Spec


def _checked_version(version: str) -> str:
    try:
        return known_version(version).number
    except UsageFailure as failure:
        raise ValueError(str(failure)) from None


VersionNumber = Annotated[str, AfterValidator(_checked_version)]
_BrokerNumber = Annotated[int, Field(strict=False)]  # numbers are texts where a run's experiment.yaml has them as keys


class ClusterSpec(Spec):
    """The key `cluster`: the brokers of a run, and who keeps their metadata."""

    brokers: int = Field(default=3, ge=1, le=9, description="brokers, numbered from 1")
    metadata_mode: Literal["zookeeper", "kraft"] = Field(
        default="zookeeper", description="where the cluster keeps its metadata: `zookeeper` or `kraft`"
    )
    zookeepers: int = Field(default=1, description="servers of the ZooKeeper ensemble: 1 or 3; 0 with `kraft`")
    controllers: int = Field(
        default=0, description="dedicated KRaft controllers: 1 or 3; with 0, up to three of the brokers are controllers"
    )
    kafka_version: VersionNumber = Field(
        default=KAFKA_VERSION, description="version of Kafka that the cluster runs; in KRaft mode the newest by default"
    )
    broker_versions: dict[_BrokerNumber, VersionNumber] = Field(
        default_factory=dict,
        description="versions of single brokers, by number, in a mixed cluster; all brokers speak the oldest version's "
        "protocol, and in KRaft mode have its feature levels",
    )
    elr: bool | None = Field(
        default=None,
        description="whether leaders are elected from the eligible leader replicas (KIP-966); by default, if a newly "
        "created cluster of this version has this election",
    )
    controller: int | None = Field(
        default=None, description="broker that starts first and so becomes controller (ZooKeeper)"
    )
    broker_configs: dict[str, Any] = Field(default_factory=dict, description="Kafka's broker configs, for all brokers")
    configs_of: dict[_BrokerNumber, dict[str, Any]] = Field(
        default_factory=dict, description="Kafka's broker configs for single brokers, by number"
    )
    assume: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="broker configs that may have any value, although the model does not know their effect: "
        "anomalies that may depend on them are not judged",
    )
    links: bool = Field(
        default=False,
        description="every connection to a broker or controller passes a link, which records it in `trace/`; faults "
        "that act on single requests switch it on themselves",
    )
    tiered_storage: bool = Field(
        default=False,
        description="brokers share a remote store (KIP-405, Kafka 3.9 and later): they copy the closed segments of "
        "`tiered` lanes to it, and faults can break it",
    )
    security: Literal["plaintext", "sasl_ssl", "mtls"] = Field(
        default="plaintext", description="what clients need to connect: nothing, a password, or a certificate"
    )
    advertise: Annotated[str, AfterValidator(valid_host)] | None = Field(
        default=None,
        description="host of the container engine, if that is another machine: ports are published there, and brokers "
        f"advertise it to clients; by default the value of the variable `{ADVERTISE}`",
    )

    @model_validator(mode="before")
    @classmethod
    def _with_defaults_of_kraft(cls, value: Any) -> Any:
        """In KRaft mode, the newest version and no ZooKeeper are the defaults; `zookeepers: 1` is refused later."""
        if isinstance(value, dict) and value.get("metadata_mode") == KRAFT:
            return {"zookeepers": 0, "kafka_version": usual_version(KRAFT), **value}
        return value

    def as_layout(self) -> ClusterLayout:
        """The layout of the cluster to start; raises `UsageFailure` if there can be no such cluster."""
        # A host from the environment is not part of the experiment, since another machine may repeat the experiment.
        return ClusterLayout(**{**self.model_dump(), "advertise": self.advertise or usual_host()})

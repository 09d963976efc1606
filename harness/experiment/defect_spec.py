"""The key `defect`, the head of an experiment that shows a known defect of a client or broker.

`experiments/known/` has one such file per defect. `kafka-chaos known` lists them, and runs both sides of a file: the
affected side, and a control without the defect. The sides are lanes of one run (`lanes`), or two runs (`control`).
"""

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kafka_chaos.contract.lane.families import anomaly_named
from kafka_chaos.harness.experiment.cluster_spec import VersionNumber
from kafka_chaos.harness.experiment.values import Spec


def _checked_address(address: str) -> str:
    if not address.startswith("https://"):
        raise ValueError("expected the address of a ticket, or of another page about the defect: https://…")
    return address


class ControlSpec(Spec):
    """The key `defect.control`: what differs in the cluster of the second run, which does not have the defect."""

    kafka_version: VersionNumber | None = Field(default=None, description="a version of Kafka without the defect")
    broker_configs: dict[str, Any] = Field(
        default_factory=dict, description="Kafka's broker configs that avoid the defect, besides those in `cluster`"
    )


class DefectSpec(Spec):
    """The key `defect`: what breaks, in which versions, how it shows, and which side of the experiment is affected."""

    ticket: Annotated[str, AfterValidator(_checked_address)] = Field(description="address of the report of the defect")
    title: str = Field(min_length=1, max_length=100, description="what breaks, in one sentence")
    affected: str = Field(min_length=1, description="the versions that have the defect, such as `sarama to 1.45.0`")
    mended: str = Field(min_length=1, description="the first version without the defect, or `open`")
    borders: Literal["shown", "source", "change log", "ticket"] = Field(
        description="how `affected` and `mended` are known: by runs, the source at the tags, change log or ticket"
    )
    anomalies: tuple[Annotated[str, AfterValidator(anomaly_named)], ...] = Field(
        default=(), strict=False, description="the anomalies by which the defect can show; one of them is enough"
    )
    reason: str | None = Field(
        default=None,
        min_length=1,
        description="words in the reason why an affected lane's verdict is unknown, if the defect leaves no evidence "
        "of an anomaly, as when a client ends or gets no records",
    )
    gap: float | None = Field(
        default=None,
        gt=0,
        strict=False,
        description="seconds: a lane without acknowledgements for longer shows the defect, even if faults excuse it",
    )
    minutes: float = Field(gt=0, le=60, strict=False, description="how many minutes both sides take, on two cores")
    lanes: tuple[str, ...] = Field(
        default=(), strict=False, description="the lanes that have the defect, if the other lanes are the control"
    )
    control: ControlSpec | None = Field(
        default=None, description="the cluster of a second run, if every lane of the first run has the defect"
    )
    runs: int = Field(ge=1, description="how often both sides were run")
    shown: int = Field(ge=0, description="how many of these runs showed the defect on the affected side alone")
    tried: str | None = Field(default=None, description="if no run showed the defect: what was tried, and the result")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not self.anomalies and self.reason is None and self.gap is None:
            raise ValueError("expected `anomalies`, `gap` or `reason`, by which the defect can show")
        if self.shown > self.runs:
            raise ValueError(f"`shown`: expected at most {self.runs}, the number of runs, got {self.shown}")
        if (self.tried is None) != (self.shown > 0):
            raise ValueError("expected `tried` if no run showed the defect (`shown: 0`), and only then")
        if (self.control is None) != bool(self.lanes):
            raise ValueError("expected either `lanes`, the other lanes being the control, or `control`, a second run")
        return self

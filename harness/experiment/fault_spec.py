"""An entry of a schedule, and the faults that it stands for."""

from functools import cached_property
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator, model_validator

from kafka_chaos.faults.fault import Fault, build, defaults
from kafka_chaos.faults.registry import fault_kind, fault_kinds
from kafka_chaos.faults.target import Target, TargetError
from kafka_chaos.harness.experiment.values import Seconds, Spec


class FaultSpec(Spec):
    """An entry of `schedule`: a fault kind, its target and times in seconds, and the keys that the kind takes.

    With `times` or `stagger`, an entry stands for several faults: `single_fault_entries` makes them.
    """

    model_config = ConfigDict(extra="allow")

    fault: str = Field(description="the fault kind; a kind may have more keys")
    target: str = Field(description="what the fault hits, such as `leader(LANE)` or `broker:1`")
    at: Seconds = Field(description="seconds after the load began")
    duration: Seconds = Field(default=0.0, description="seconds until the fault is healed; 0 heals it at once")
    times: int = Field(default=1, ge=1, le=1000, exclude=True, description="how often the fault happens (a crash loop)")
    every: Seconds = Field(
        default=0.0,
        exclude=True,
        validate_default=True,
        description="with `times`: seconds from one beginning to the next, more than `duration`",
    )
    stagger: Seconds = Field(
        default=0.0,
        exclude=True,
        description="with a target such as `brokers:1,2,3`: seconds from one broker to the next, as in a rolling "
        "restart; 0 hits all at the same moment",
    )
    _entry_index: int = PrivateAttr(default=0)

    @model_validator(mode="before")
    @classmethod
    def _with_defaults(cls, value: Any) -> Any:
        """The entry with the defaults of its kind's keys, for the experiment.yaml of a run."""
        kind = fault_kinds().get(str(value.get("fault"))) if isinstance(value, dict) else None
        return value if kind is None else {**defaults(kind), **value}

    @field_validator("every")
    @classmethod
    def _check_every(cls, every: float, info: ValidationInfo) -> float:
        if info.data.get("times", 1) > 1 and every <= info.data.get("duration", 0.0):
            raise ValueError(f"expected more than duration ({info.data.get('duration', 0.0):g} s)")
        return every

    @field_validator("stagger")
    @classmethod
    def _check_stagger(cls, stagger: float, info: ValidationInfo) -> float:
        if stagger and not _several_brokers(str(info.data.get("target"))):
            raise ValueError("expected 0, or a target of several brokers, such as brokers:1,2,3")
        return stagger

    @property
    def entry_index(self) -> int:
        """The index of the entry of the file's `schedule` from which `single_fault_entries` made this single fault."""
        return self._entry_index

    @cached_property
    def built_fault(self) -> Fault:
        """The fault; raises `TargetError`, or `ValueError` of the form `KEY: what was expected`."""
        try:
            kind = fault_kind(self.fault)
        except ValueError as error:
            raise ValueError(f"fault: {error}") from error
        target = Target.parse(self.target)
        keys = self.__pydantic_extra__ or {}
        return build(kind, target=target, at=self.at, duration=self.duration, keys=keys)


def single_fault_entries(entries: tuple[FaultSpec, ...]) -> tuple[FaultSpec, ...]:
    """A schedule in which each entry is a single fault.

    An entry with `times` is repeated, an entry with `stagger` becomes one entry for each of its brokers.
    """
    faults = []
    for index, entry in enumerate(entries):
        brokers = _several_brokers(entry.target) if entry.stagger else ()
        targets = [f"broker:{broker}" for broker in brokers] or [entry.target]
        for repetition in range(entry.times):
            for position, target in enumerate(targets):
                at = round(entry.at + repetition * entry.every + position * entry.stagger, 3)
                single = {"times": 1, "every": 0.0, "stagger": 0.0, "target": target, "at": at}
                fault = entry.model_copy(update=single)
                fault._entry_index = index
                faults.append(fault)
    return tuple(faults)


def _several_brokers(target: str) -> tuple[int, ...]:
    """The brokers of a target such as `brokers:1,2,3`; none for any other target."""
    try:
        parsed = Target.parse(target)
    except TargetError:
        return ()
    return parsed.numbers if parsed.role == "brokers" else ()

"""Records of scenarios built in code: replicas in a line each, steps from looks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafka_chaos.harness.scenario.record import ActRecord, Expectation, ScenarioRecord, StepRecord
from kafka_chaos.reference_model.cluster_observation import Difference, Observation, ReplicaObservation

NAMES = {1: "X", 2: "Y", 3: "Z"}


def replica(
    *records: str,
    role: str | None = "follower",
    high_watermark: int | None = None,
    checkpointed: int | None = None,
    first: int = 0,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    leader: int | None = None,
) -> ReplicaObservation:
    """A replica whose records are written `name·epoch`; the high watermark is, if not given, the end of the log."""
    cells = [record.rsplit("·", 1) for record in records]
    log = tuple((first + place, name, int(epoch)) for place, (name, epoch) in enumerate(cells))
    end = first + len(log)
    known = end if high_watermark is None else high_watermark
    return ReplicaObservation(
        log=log,
        log_start=first,
        log_end=end,
        high_watermark=known if role else None,
        checkpointed_high_watermark=known if checkpointed is None else checkpointed,
        epochs=tuple(epochs),
        role=role,
        leader=leader,
    )


def look(
    replicas: Mapping[int, ReplicaObservation], *, leader: int = 1, epoch: int = 0, isr: tuple[int, ...] = (1, 2, 3),
    acknowledged: tuple[tuple[str, int | None], ...] = (),
) -> Observation:  # fmt: skip
    """A look at the replicas and at the partition in ZooKeeper."""
    return Observation(
        replicas=replicas, leader=leader, leader_epoch=epoch, isr=isr, controller_epoch=1, acknowledged=acknowledged
    )


def step(
    number: int,
    sentence: str,
    seen: Observation,
    *,
    allowed: Sequence[Observation] | None = None,
    differences: Sequence[Difference] = (),
) -> StepRecord:
    """A step; without `allowed` the model allows just what was seen."""
    states = tuple([seen] if allowed is None else allowed)
    matching = 0 if differences else len(states)
    return StepRecord(number, sentence, 1.25, seen, states, 4, matching, tuple(differences))


def act(*steps: StepRecord, name: str = "as told", facts: Mapping[str, Any] | None = None, **more: Any) -> ActRecord:
    """An act of X, Y and Z."""
    return ActRecord(name, "steady", "kip320", (1, 2, 3), NAMES, list(steps), facts=dict(facts or {}), **more)


def scenario_record(*acts: ActRecord, name: str = "acks-1-recovery", **more: Any) -> ScenarioRecord:
    """A record of one run."""
    return ScenarioRecord(name, "002", "An acknowledged record is lost", acts=list(acts), seconds=12.34, **more)


def truncation() -> ScenarioRecord:
    """X alone has M2 and dies; Y leads and takes M3; X returns and truncates M2. Step 2 changes nothing to be seen."""
    both = {1: replica("M1·0", role="leader"), 2: replica("M1·0"), 3: replica("M1·0")}
    ahead = {**both, 1: replica("M1·0", "M2·0", role="leader", high_watermark=1)}
    second = ((0, 0), (1, 1))
    led = replica("M1·0", "M3·1", role="leader", epochs=second)
    down = replica("M1·0", "M2·0", role=None, checkpointed=1)
    without_x = {1: down, 2: led, 3: replica("M1·0", "M3·1", epochs=second)}
    told = (("M1", 0), ("M2", 1))
    steps = [
        step(0, "The topic is made.", look({b: replica(role="leader" if b == 1 else "follower") for b in NAMES})),
        step(1, "M1 is sent with acks=1.", look(both, acknowledged=told[:1])),
        step(2, "Y's and Z's fetches no longer reach X.", look(both, acknowledged=told[:1])),
        step(3, "M2 is sent with acks=1.", look(ahead, acknowledged=told)),
        step(
            4,
            "X is killed; M3 is sent.",
            look(without_x, leader=2, epoch=1, isr=(2, 3), acknowledged=(*told, ("M3", 1))),
        ),
        step(
            5,
            "X is started again.",
            look(
                {**without_x, 1: replica("M1·0", "M3·1", epochs=second)},
                leader=2,
                epoch=1,
                isr=(1, 2, 3),
                acknowledged=(*told, ("M3", 1)),
            ),
        ),
    ]
    facts = {"X's log": "Truncating to offset 1", "times": [{"broker": 1, "seconds": 0.5}, {"broker": 2, "seconds": 1}]}
    played = act(*steps, facts=facts)
    played.expectations = [
        Expectation("M2 is gone", ["M1", "M3"], ["M1", "M3"], True),
        Expectation("nobody was told", True, True, True),
    ]
    return scenario_record(played, verdict="conforms")


def planted_difference() -> ScenarioRecord:
    """The model does not truncate: it has X keep M2, where Kafka's X has M3."""
    record = truncation()
    last = record.acts[0].steps[-1]
    kept = replica("M1·0", "M2·0", epochs=((0, 0),))
    allowed = [
        look({**last.observation.replicas, 1: kept}, leader=2, epoch=1, acknowledged=(("M1", 0),)),
        look(
            {**last.observation.replicas, 1: replica("M1·0", "M2·0", high_watermark=1)},
            leader=2,
            epoch=1,
            acknowledged=(("M1", 0),),
        ),
    ]
    differences = [Difference(1, "log", last.observation.replicas[1].log, (kept.log,))]
    record.acts[0].steps[-1] = step(5, last.sentence, last.observation, allowed=allowed, differences=differences)
    record.acts[0].expectations = []
    record.verdict = "violation"
    record.reason = "as told, step 5 (X is started again.) broker 1, log: …"
    return record

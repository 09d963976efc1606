"""Records of scenarios built in code: replicas in a line each, steps from looks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kafka_chaos.conformance.scenario.record import ActRecord, Expectation, ScenarioRecord, StepRecord
from kafka_chaos.conformance.scenario.registry import Document, Source
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.reference_model.lockstep.observation import (
    GIVEN,
    Difference,
    Observation,
    ReplicaObservation,
    ShareObservation,
)

NAMES = {1: "X", 2: "Y", 3: "Z"}
RECOVERY = Document("Replica Recovery", "Replica Recovery", None)
SOURCE = Source(RECOVERY, "acks=1", "acks=1 인 경우")


def replica(
    *records: str,
    role: str | None = "follower",
    high_watermark: int | None = None,
    checkpointed: int | None = None,
    first: int = 0,
    epochs: Sequence[tuple[int, int]] = ((0, 0),),
    leader: int | None = None,
) -> ReplicaObservation:
    """A replica whose records are written `name·epoch`; the high watermark is by default the end of the log."""
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
    """An observation of the replicas and of the partition in the metadata."""
    return Observation(
        replicas=replicas, leader=leader, leader_epoch=epoch, isr=isr, controller_epoch=1, acknowledged=acknowledged
    )


def step(number: int, sentence: str, seen: Observation, *, differences: Sequence[Difference] = ()) -> StepRecord:
    """A step of which the model allows what was observed, but for the differences."""
    return StepRecord(number, sentence, 1.25, seen, 4, 0 if differences else 1, tuple(differences))


def act(*steps: StepRecord, name: str = "a loss", facts: Mapping[str, Any] | None = None, **more: Any) -> ActRecord:
    """An act of X, Y and Z."""
    return ActRecord(name, "steady", "kip320", (1, 2, 3), NAMES, list(steps), facts=dict(facts or {}), **more)


def scenario_record(*acts: ActRecord, name: str = "acks-1-recovery", **more: Any) -> ScenarioRecord:
    """A record of one run."""
    return ScenarioRecord(
        name, RECOVERY.title, "An acknowledged record is lost", acts=list(acts), seconds=12.34, **more
    )


def truncation() -> ScenarioRecord:
    """Only X has M2 and dies; Y leads and appends M3; X returns and truncates M2. Step 2 changes nothing visible."""
    both = {1: replica("M1·0", role="leader"), 2: replica("M1·0"), 3: replica("M1·0")}
    ahead = {**both, 1: replica("M1·0", "M2·0", role="leader", high_watermark=1)}
    second = ((0, 0), (1, 1))
    led = replica("M1·0", "M3·1", role="leader", epochs=second)
    down = replica("M1·0", "M2·0", role=None, checkpointed=1)
    without_x = {1: down, 2: led, 3: replica("M1·0", "M3·1", epochs=second)}
    acknowledged = (("M1", 0), ("M2", 1))
    steps = [
        step(0, "The topic is created.", look({b: replica(role="leader" if b == 1 else "follower") for b in NAMES})),
        step(1, "A producer sends M1 with acks=1.", look(both, acknowledged=acknowledged[:1])),
        step(2, "Y's and Z's fetches no longer reach X.", look(both, acknowledged=acknowledged[:1])),
        step(3, "A producer sends M2 with acks=1.", look(ahead, acknowledged=acknowledged)),
        step(
            4,
            "X is killed; a producer sends M3.",
            look(without_x, leader=2, epoch=1, isr=(2, 3), acknowledged=(*acknowledged, ("M3", 1))),
        ),
        step(
            5,
            "X is restarted.",
            look(
                {**without_x, 1: replica("M1·0", "M3·1", epochs=second)},
                leader=2,
                epoch=1,
                isr=(1, 2, 3),
                acknowledged=(*acknowledged, ("M3", 1)),
            ),
        ),
    ]
    facts = {"X's log": "Truncating to offset 1", "times": [{"broker": 1, "seconds": 0.5}, {"broker": 2, "seconds": 1}]}
    played = act(*steps, facts=facts)
    played.expectations = [
        Expectation("M2 is gone", ["M1", "M3"], ["M1", "M3"], True),
        Expectation("no client got an error", True, True, True),
    ]
    return scenario_record(played, verdict=Verdict.CONFORMS)


def planted_difference() -> ScenarioRecord:
    """The model does not truncate: its X keeps M2, while Kafka's X has M3."""
    record = truncation()
    last = record.acts[0].steps[-1]
    kept = replica("M1·0", "M2·0", epochs=((0, 0),))
    differences = [Difference(1, "log", last.observation.replicas[1].log, (kept.log,))]
    record.acts[0].steps[-1] = step(5, last.sentence, last.observation, differences=differences)
    record.acts[0].expectations = []
    record.verdict = Verdict.VIOLATION
    record.reason = "a loss, step 5 (X is restarted.) broker 1, log: …"
    return record


def sharing() -> ScenarioRecord:
    """A share group: member 1 is given a record and accepts it, then member 2 is given the next one."""
    given, accepted = (GIVEN, 0, 1), ("accept", 0, "NONE")
    seen = (
        ShareObservation(start=-1, did={1: (), 2: ()}),
        ShareObservation(start=-1, did={1: (given,), 2: ()}),
        ShareObservation(start=0, did={1: (given, accepted), 2: ((GIVEN, 1, 1),)}),
    )
    sentences = ("Two members join.", "Member 1 asks for a record.", "It accepts; member 2 asks.")
    replicas = {1: replica("r0·0", "r1·0")}
    steps = [
        step(number, sentence, replace(look(replicas), shares=shares))
        for number, (sentence, shares) in enumerate(zip(sentences, seen, strict=True))
    ]
    return scenario_record(act(*steps), name="share-leader-moves")

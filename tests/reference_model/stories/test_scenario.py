"""The model's stories are read back as they were told, and written as scenarios that show the anomaly, or refused."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.anomalies import Anomaly
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.reference_model.lane.anomalies import CHECKS, ending
from kafka_chaos.reference_model.predict.cache import predict_cached
from kafka_chaos.reference_model.stories.reading import UnknownStory, read_story
from kafka_chaos.reference_model.stories.scenario import UnplayableStory, scenario_file, scenario_of
from tests.reference_model.stories.standard_stories import playable, standard_stories, varied

ACKS_1 = Lane(lane="story", acks="1", faults=("kill",))
REFUSED = {
    "OUT_OF_ORDER_SEQUENCE_NUMBER.”: scenarios have no such step": 10,
    "is cut off from brokers, metadata and its clients.”: scenarios have no such step": 8,
    "is frozen: the request waits in its socket.”: scenarios have no such step": 5,
    "arrives again: it appends record 0 at offset 1, too.”: scenarios have no such step": 4,
    "a zombie leader, appends record 0 at offset 1.”: a scenario's producer can't send it there and then": 3,
}
"""Why stories of the standard matrix are refused, and how many of its claims."""


def test_every_story_of_the_matrix_is_read_back_as_it_was_told_and_ends_with_its_anomaly() -> None:
    claims = list(standard_stories())
    assert len(claims) > 200
    for label, anomaly, story in claims:
        assert story.sentences == predict_cached(story.lane).anomalies[anomaly].why
        end = ending(story.end)
        assert end is not None
        assert CHECKS[anomaly](end), (label, anomaly)


@pytest.mark.parametrize(
    "change",
    [
        lambda sentences: sentences[1:],
        lambda sentences: (sentences[0], *sentences),
        lambda sentences: (*sentences[:-1], sentences[-1].replace("broker 2", "broker 3")),
        lambda sentences: (*sentences[:1], sentences[1].replace("record 0", "record 1"), *sentences[2:]),
        lambda sentences: sentences[:-1],
        lambda sentences: (),
    ],
)
def test_what_the_model_does_not_tell_is_refused(change: Callable[[tuple[str, ...]], tuple[str, ...]]) -> None:
    sentences = predict_cached(ACKS_1).anomalies[Anomaly.LOST_WRITE].why
    assert read_story(ACKS_1, sentences).sentences == sentences
    with pytest.raises(UnknownStory):
        read_story(ACKS_1, change(sentences))


def test_a_story_is_written_or_refused_for_a_reason() -> None:
    refused: dict[str, int] = {}
    claims = list(standard_stories())
    for _, anomaly, story in claims:
        try:
            scenario_file(story, anomaly)
        except UnplayableStory as error:
            (reason,) = (reason for reason in REFUSED if str(error).endswith(reason))
            refused[reason] = refused.get(reason, 0) + 1
    assert refused == REFUSED


def shown(steps: list[dict[str, Any]]) -> set[Anomaly]:
    """What the expectations of a scenario show: acknowledgements, reads, and the log at the end."""
    acknowledged: dict[str, int | None] = {}
    reads: list[tuple[int, str]] = []
    log: list[str] = []
    for step in steps:
        for observed, value in list(step.items())[1:] if "expect" in step else ():
            name, _, arguments = observed.rstrip(")").partition("(")
            match name:
                case "offset":
                    acknowledged[arguments] = value
                case "is acknowledged":
                    acknowledged[arguments] = None
                case "is read at":
                    record, _, offset = arguments.partition(", ")
                    reads.append((int(offset), record))
                case "log":
                    log = [record for record in value if record.startswith("r")]
                    held = set(enumerate(value))
    firsts = list(dict.fromkeys(log))
    places = {*held, *reads, *((offset, record) for record, offset in acknowledged.items() if offset is not None)}
    evidence = {
        Anomaly.LOST_WRITE: any(record not in log for record in acknowledged),
        Anomaly.DUPLICATE: len(firsts) < len(log),
        Anomaly.TRUNCATED_READ: any(record not in log for _, record in reads),
        Anomaly.REORDERED: firsts != sorted(firsts),
        Anomaly.INCONSISTENT_OFFSET: len({offset for offset, _ in places}) < len(places),
        Anomaly.OFFSET_MISMATCH: any(
            record in log and offset is not None and (offset, record) not in held
            for record, offset in acknowledged.items()
        ),
    }
    return {anomaly for anomaly, holds in evidence.items() if holds}


@pytest.mark.parametrize("name", playable())
def test_what_a_scenario_expects_shows_the_anomaly(name: str) -> None:
    (scenario,) = playable()[name]["scenarios"].values()
    assert Anomaly(name.rpartition(": ")[2]) in shown(scenario["acts"][0]["steps"])


def test_the_nightly_stories_are_of_every_anomaly_and_fault() -> None:
    names = varied(20)
    assert len(set(names)) == 20
    assert {name.rpartition(": ")[2] for name in names} == {str(anomaly) for anomaly in CHECKS} - {"replica_divergence"}
    faults = {name.rpartition(": ")[0].rpartition(", ")[2] for name in names}
    assert faults >= {"kill", "stop", "pause", "partition", "power-loss", "session-expiry"}


def test_what_is_forbidden_has_no_story() -> None:
    lane = replace(ACKS_1, acks="all")
    with pytest.raises(UsageFailure, match="--story lost_write: no story, since the anomaly is forbidden"):
        scenario_of(lane, Anomaly.LOST_WRITE, predict_cached(lane))


def test_a_story_of_another_cluster_is_played_there() -> None:
    lane = replace(ACKS_1, kafka_version="4.3.1", metadata_mode="kraft", elr=False, replication_factor=2)
    (scenario,) = scenario_of(lane, Anomaly.LOST_WRITE, predict_cached(lane))["scenarios"].values()
    (act,) = scenario["acts"]
    assert act["replicas"] == [1, 2]
    cluster = act["cluster"]
    assert (cluster["kafka_version"], cluster["metadata_mode"], cluster["elr"]) == ("4.3.1", "kraft", False)

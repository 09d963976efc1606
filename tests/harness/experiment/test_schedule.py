"""Schedules drawn from a seed are the same again, never overlap, fit the load, and are written out in full."""

import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.file import dump_experiment, load_experiment, parse_experiment
from kafka_chaos.harness.experiment.schedule import GenerateSpec
from kafka_chaos.harness.experiment.specs import Experiment

TEXT = """\
name: drawn
seed: 7
workload: {duration: 40}
lanes:
  - lane: one
schedule:
  generate:
    faults: [kill, pause, partition]
    targets: [leader(one), controller]
    count: 3
"""


def test_a_schedule_is_the_same_on_every_machine() -> None:
    bounds = GenerateSpec(faults=("kill", "stop"), targets=("controller", "random"), count=2)
    assert bounds.draw(seed=1, phase="main", load_seconds=30, brokers=3) == [
        {"fault": "kill", "target": "controller", "at": 2.0, "duration": 4.7},
        {"fault": "kill", "target": "controller", "at": 11.1, "duration": 1.3},
    ]


def test_what_is_written_out_replays_what_was_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_CHAOS_ADVERTISE", "this-machine-s-engine")
    experiment = parse_experiment(TEXT, "a.yaml")
    assert experiment.layout.advertise == "this-machine-s-engine"
    written = tmp_path / "experiment.yaml"
    written.write_text(dump_experiment(experiment, {}))
    assert "generate" not in written.read_text()
    # Not even another seed changes it: it is written out.
    monkeypatch.delenv("KAFKA_CHAOS_ADVERTISE")
    again = load_experiment(written, overrides={"seed": 8})
    assert again.model_dump()["phases"] == experiment.model_dump()["phases"]
    assert again.layout.advertise is None
    assert load_experiment(written, overrides={"cluster.advertise": "other"}).layout.advertise == "other"


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    shortest=st.floats(0, 5),
    more=st.floats(0, 5),
    load=st.floats(20, 200),
    kinds=st.lists(st.sampled_from(["kill", "stop", "pause", "partition"]), min_size=1),
)
def test_faults_never_overlap_and_are_healed_before_the_load_ends(
    seed: int, shortest: float, more: float, load: float, kinds: list[str]
) -> None:
    bounds = GenerateSpec(
        faults=tuple(kinds), targets=("random",), duration=(shortest, shortest + more), gap=(1.0, 2.0), first_at=1.0
    )
    entries = bounds.draw(seed=seed, phase="p", load_seconds=load, brokers=3)
    assert {entry["fault"] for entry in entries} <= set(kinds)
    for before, after in itertools.pairwise(entries):
        assert after["at"] >= before["at"] + before["duration"] + 0.9
    assert entries[-1]["at"] + entries[-1]["duration"] <= load + 0.1


@settings(max_examples=40)
@given(
    seed=st.integers(0, 2**31),
    breaks=st.sampled_from(["one", "minority", "any"]),
    brokers=st.sampled_from([3, 5]),
    targets=st.lists(st.sampled_from(["random", "broker:2", "leader(one)"]), min_size=1),
    quiet=st.floats(0, 10),
)
def test_faults_that_overlap_never_break_more_brokers_than_allowed(
    seed: int, breaks: Any, brokers: int, targets: list[str], quiet: float
) -> None:
    bounds = GenerateSpec(
        faults=("kill",), targets=tuple(targets), duration=(3, 9), gap=(0.5, 2), breaks=breaks, quiet_end=quiet
    )
    entries = bounds.draw(seed=seed, phase="p", load_seconds=60, brokers=brokers)
    most = {"one": 1, "minority": (brokers - 1) // 2, "any": len(entries)}[breaks]
    for entry in entries:
        moment = entry["at"] + 0.1
        assert sum(one["at"] <= moment < one["at"] + one["duration"] - 0.1 for one in entries) <= most
        assert entry["at"] + entry["duration"] <= 60 - quiet + 0.1


@pytest.mark.parametrize("seed", range(20))
def test_kinds_that_cannot_stand_in_one_schedule_are_not_drawn_together(seed: int) -> None:
    bounds = GenerateSpec(faults=("connection-reset", "cut", "hold"), targets=("random",), count=5)
    drawn = {entry["fault"] for entry in bounds.draw(seed=seed, phase="main", load_seconds=100, brokers=3)}
    assert drawn == {"connection-reset"} or drawn <= {"cut", "hold"}


def test_a_schedule_of_moments_ends() -> None:
    bounds = GenerateSpec(faults=("kill",), targets=("random",), duration=(0, 0.04), gap=(0, 0))
    assert len(bounds.draw(seed=1, phase="main", load_seconds=20, brokers=3)) > 50


def test_what_has_more_weight_is_drawn_more_often() -> None:
    bounds = GenerateSpec(
        faults=("kill", "pause"), targets=("random",), duration=(0.1, 0.1), gap=(0.1, 0.1), weights={"pause": 9}
    )
    kinds = [entry["fault"] for entry in bounds.draw(seed=1, phase="p", load_seconds=100, brokers=3)]
    assert kinds.count("pause") > 4 * kinds.count("kill") > 0


@pytest.mark.parametrize(
    ("old", "new", "place", "expected"),
    [
        ("faults: [kill, pause, partition]", "faults: [bomb]", "7: schedule.generate", "'bomb' is not a fault kind"),
        ("leader(one)", "leader(nine)", "6: schedule[", "there is no lane nine"),
        ("count: 3", "count: 20", "7: schedule.generate", "of 20 faults fit into a load of 40 s: lengthen workload"),
        ("count: 3", "gap: [5, 1]", "10: schedule.generate.gap", "the shortest, 5 s, is longer than the longest"),
        ("count: 3", "weights: {stop: 2}", "7: schedule.generate", "'stop' is never drawn: expected one of kill,"),
        ("controller]", "majority]\n    breaks: minority", "7: schedule.generate", "majority may break 2 of 3 brokers"),
        ("  generate:", "  create: 1\n  generate:", "6: schedule", "or the one key generate, got create, generate"),
        ("count: 3", "producer_configs: {linger.ms: 5}", "10: schedule.generate.producer_configs", "expected a list"),
        ("count: 3", "producer_configs: [{lingers.ms: 1}]", "5: lanes[0].producer_configs", "lingers.ms"),
        ("count: 3", "clusters: [3.9.1]", "7: schedule.generate", "clusters: '3.9.1': expected VERSION/MODE"),
        ("count: 3", "clusters: [4.3.1/zookeeper]", "7: schedule.generate",
         "version '4.3.1' of Kafka has no ZooKeeper"),
        ("count: 3", "keys: {api: [Produce]}", "7: schedule.generate",
         "none of kill, pause, partition has the key 'api'"),
        ("[kill, pause, partition]", "[session-expiry]\n    clusters: [4.3.1/kraft]", "7: schedule.generate",
         "supports none of session-expiry"),
    ],
)  # fmt: skip
def test_a_refusal_names_the_line_and_what_was_expected(old: str, new: str, place: str, expected: str) -> None:
    with pytest.raises(UsageFailure) as refusal:
        parse_experiment(TEXT.replace(old, new), "bad.yaml")
    assert str(refusal.value).startswith(f"bad.yaml:{place}")
    assert expected in str(refusal.value)


def _drawn(text: str, seeds: int = 15) -> list[Experiment]:
    return [parse_experiment(text, "a.yaml", overrides={"seed": seed}) for seed in range(seeds)]


def test_durations_are_drawn_around_the_time_outs_of_brokers_and_lanes() -> None:
    lane = "lane: one, producer_configs: {request.timeout.ms: 4000}"
    text = TEXT.replace("- lane: one", f"- {{{lane}}}") + "    around_timeouts: true\n    duration: [2, 8]\n"
    drawn = {entry.duration for one in _drawn(text, seeds=30) for entry in one.phases[0].schedule}
    # The session lasts 3 s, a request 4 s; 30 s of a lag do not fit.
    assert drawn == {2.7, 3.3, 4.5, 6.0, 3.6, 4.4, 8.0}


def test_a_client_is_drawn_for_each_lane_that_it_can_serve_and_configs_where_it_knows_their_names() -> None:
    lanes = "- {lane: one, acks: all, idempotence: true}\n  - {lane: own, client: aiokafka}\n"
    text = TEXT.replace("- lane: one", lanes + "  - {lane: sure, transactional: {}}")
    text += "    clients: [librdkafka, java 3.9.1, sarama 1.43.3]\n    producer_configs: [{linger.ms: 5}]\n"
    found: dict[str, set[Any]] = {"one": set(), "own": set(), "sure": set()}
    for experiment in _drawn(text):
        for lane in experiment.phases[0].lanes:
            found[lane.lane].add((lane.client, lane.max_in_flight, *lane.producer_configs))
    both = {("librdkafka", 5, "linger.ms"), ("java 3.9.1", 5, "linger.ms")}
    # Sarama has one request in flight, and takes no configs.
    every = {*both, ("sarama 1.43.3", 1)}
    assert found == {"one": every, "own": {("aiokafka 0.14.0", 5)}, "sure": every}


def test_the_cluster_is_drawn_and_keeps_its_other_keys() -> None:
    text = TEXT + "    clusters: [3.9.1/zookeeper, 4.3.1/kraft]\n    weights: {4.3.1/kraft: 9}\ncluster: {brokers: 4}\n"
    found = [(one.cluster.kafka_version, one.cluster.metadata_mode, one.cluster.brokers) for one in _drawn(text)]
    assert set(found) == {("3.9.1", "zookeeper", 4), ("4.3.1", "kraft", 4)}
    assert found.count(("4.3.1", "kraft", 4)) > 9


def test_phases_that_draw_the_cluster_draw_the_same() -> None:
    def text(*clusters: str) -> str:
        schedules = [
            f"{{generate: {{faults: [kill], targets: [controller], clusters: [{names}]}}}}" for names in clusters
        ]
        phases = [
            f"- {{phase: p{number}, lanes: [{{lane: lane-{number}}}], schedule: {schedule}}}\n"
            for number, schedule in enumerate(schedules)
        ]
        return "name: two\nseed: 1\nphases:\n" + "".join(phases)

    both = "3.9.1/zookeeper, 4.3.1/kraft"
    assert {one.cluster.metadata_mode for one in _drawn(text(both, both))} == {"zookeeper", "kraft"}
    with pytest.raises(
        UsageFailure, match=r"two:5: phases\[1\]\.schedule\.generate\.clusters: expected 3\.9\.1/zookee"
    ):
        parse_experiment(text(both, "4.3.1/kraft"), "two")


def test_further_keys_are_drawn_for_the_kinds_that_have_them() -> None:
    text = TEXT.replace("[kill, pause, partition]", "[kill, hold]")
    text += "    keys: {api: [Produce, EndTxn], nth: [1, 2]}\n"
    faults = [entry for one in _drawn(text) for entry in one.phases[0].schedule]
    assert {entry.model_extra["api"] for entry in faults if entry.fault == "hold"} == {"Produce", "EndTxn"}
    assert {entry.model_extra["nth"] for entry in faults if entry.fault == "hold"} == {1, 2}
    assert not any(entry.model_extra for entry in faults if entry.fault == "kill")

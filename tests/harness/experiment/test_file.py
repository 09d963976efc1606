"""Every refusal names file, line and key, and happens before anything starts."""

from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.file import dump_experiment, load_experiment, parse_experiment

GOOD = """\
name: good
cluster:
  brokers: 3
lanes:
  - lane: one
    acks: 1
  - lane: two
    acks: all
    min_insync_replicas: 2
    idempotence: true
schedule:
  - fault: kill
    target: leader(one)
    at: 2
"""
EXPERIMENTS = Path(__file__).parents[3] / "experiments"
NO_BROKER = "  - {fault: kill, target: broker:9, at: 1}"

REFUSALS = [
    ("brokers: 3", "brokers: 3\n  kafka_version: 4.3.1", "cluster", "of Kafka has no ZooKeeper: set meta", 2),
    ("brokers: 3", "brokers: 3\n  metadata_mode: kraft\n  zookeepers: 1", "cluster", "in KRaft mode has none", 2),
    ("brokers: 3", "brokers: 3\n  metadata_mode: kraft\n  controllers: 2", "cluster", "expected 0, 1 or 3", 2),
    ("brokers: 3", "brokers: 3\n  metadata_mode: kraft\n  controller: 2", "cluster", "elect the active one", 2),
    ("brokers: 3", "brokers: 3\n  metadata_mode: kraft\n  kafka_version: 2.8.2", "cluster", "one of 4.4.0, 4.3.1", 2),
    ("brokers: 3", "brokers: 3\n  metadata_mode: kraft\n  kafka_version: 3.9.1\n  elr: true",
     "cluster", "no eligible leader replicas", 2),
    ("brokers: 3", "brokers: 3\n  controllers: 3", "cluster", "in ZooKeeper mode a broker is controller", 2),
    ("name: good", "name: good\nworkload: {duration: .inf}", "workload.duration", "a finite number, got inf", 2),
    (GOOD[GOOD.index("  - fault") :], "  - kill\n", "schedule[0]", "expected a mapping of keys", 12),
    ("lanes:", "colour: red\nlanes:", "colour", "no such key", 4),
    ("brokers: 3", "brokers: 0", "cluster.brokers", "expected at least 1, got 0", 3),
    ("brokers: 3", "brokers: 3\n  broker_configs: {log.segment.byte: 1}", "cluster", "mean log.segment.bytes", 2),
    ("brokers: 3", "brokers: 3\n  broker_configs: {broker.id: 7}", "cluster", "set by the harness itself", 2),
    ("brokers: 3", "brokers: 3\n  broker_configs: {log.roll.ms: 1 h}", "cluster", "a whole number, got '1 h'", 2),
    ("brokers: 3", "brokers: 3\n  controller: 4", "cluster", "4 is not a broker", 2),
    ("acks: 1", "acks: 2", "lanes[0].acks", 'expected one of "0", "1", "all"', 6),
    ("lane: one", 'lane: "o:ne"', "lanes[0].topic", "no topic can be called 'o:ne': expected a topic name", 5),
    ("acks: 1", "acks: 1\n    idempotence: true", "lanes[0].idempotence", "acks=all with it", 7),
    ("acks: 1", "acks: 1\n    ack: 1", "lanes[0].ack", "no such key; expected lane", 7),
    ("acks: 1", "acks: 1\n    replication_factor: 4", "lanes[0].replication_factor", "at most 3, the number", 7),
    ("acks: 1", "acks: 1\n    lives: [{at: 40}]", "lanes[0].lives[0].at", "past the load of 30 s", 7),
    ("acks: 1", "acks: 1\n    lives: [{at: 1, returns: 2}]", "lanes[0].lives[0]", "expected none without lasts", 7),
    ("acks: 1", "acks: 1\n    lives: {generate: {lasts: [3, 1]}}", "lanes[0].lives.generate.lasts", "longer than", 7),
    ("acks: 1", "lives: [{at: 1}]\n    transactional: {}", "lanes[0].lives", "no lives with trans", 6),
    ("acks: 1", "acks: 1\n    created_at: 30", "lanes[0].created_at", "less than 30 s, the load's duration", 7),
    ("acks: 1", "acks: 1\n    created_at: 3", "lanes[0].created_at", "kill on leader(one) concerns the topic", 7),
    ("idempotence: true", "created_at: 9", "lanes[1].created_at", "kill ends before the topic is created at 9 s", 10),
    ("idempotence: true", "loop: {source: one}\n    created_at: 1", "lanes[1].created_at", "the source of a loop", 11),
    ("acks: 1", "acks: 1\n    topic_configs: {retention.m: 1}", "lanes[0].topic_configs", "retention.ms", 7),
    ("acks: 1", "acks: 1\n    producer_configs: {acks: 1}", "lanes[0].producer_configs.acks", "the lane's own key", 7),
    ("acks: 1", "consumer_configs: {heartbeat.interval.ms: 9}",
     "lanes[0].consumer_configs.heartbeat.interval.ms", "expected a group or a loop", 6),
    ("acks: 1", "consumer_configs: {auto.offset.reset: latest}",
     "lanes[0].consumer_configs.auto.offset.reset", "own key", 6),
    ("acks: 1", "group: {reset: none}", "lanes[0].group.reset", "earliest, latest", 6),
    ("acks: 1", "client: java\n    producer_configs: {linger_ms: 1}",
     "lanes[0].producer_configs.linger_ms", "calls it linger.ms", 7),
    ("acks: 1", "client: sarama\n    consumer_configs: {a: 1}", "lanes[0].consumer_configs", "takes no configs", 7),
    ("acks: 1", "topic: __consumer_offsets", "lanes[0].topic", "a topic name without a colon, and none of Kafka", 6),
    ("acks: 1", "topic_configs: {max.message.bytes: 99}", "lanes[0]", "take no record of 100 bytes: expected more", 5),
    ("acks: 1", "producer_configs: {client.id: a}", "lanes[0].producer_configs.client.id", "own key", 6),
    ("min_insync_replicas: 2", "min_insync_replicas: 4", "lanes[1].min_insync_replicas", "replication factor, 3", 9),
    ("idempotence: true", "idempotence: true\n    max_in_flight: 6", "lanes[1].max_in_flight", "at most 5", 11),
    ("acks: 1", "group: {protocol: consumer}", "lanes[0].group.protocol", "since 4.0, in KRaft mode, not in 3.9.1", 6),
    ("acks: 1", "loop: {source: nine}", "lanes[0].loop.source", "a lane of this phase without a loop (two)", 6),
    ("acks: 1", "loop: {source: one}", "lanes[0].loop.source", "another lane than the loop's own", 6),
    ("acks: 1", "loop: {source: two}\n    transactional: {restarts: 1}",
     "lanes[0].transactional.restarts", "crash", 7),
    ("acks: 1", "loop: {source: two}\n    transactional: {reads: true}",
     "lanes[0].transactional.reads", "reads its source", 7),
    ("acks: 1", "client: java 3.9.1\n    transactional: {reads: true}",
     "lanes[0].transactional.reads", "expected false with java 3.9.1", 7),
    ("acks: 1", "producer_configs: {transactional.id: a}", "lanes[0].producer_configs.transactional.id", "own key", 6),
    ("fault: kill", "fault: bomb", "schedule[0].fault", "expected one that `kafka-chaos faults` lists", 12),
    ("leader(one)", "leader(nine)", "schedule[0].target", "there is no lane nine", 13),
    ("leader(one)", "group-coordinator(one)", "schedule[0].target", "the lane one has no group and no loop", 13),
    ("leader(one)", "share-coordinator(one)", "schedule[0].target", "the lane one has no share group", 13),
    ("leader(one)", "transaction-coordinator(one)", "schedule[0].target", "the lane one has no transactions", 13),
    ("at: 2", "at: 2\n    times: 3", "schedule[0].every", "expected more than duration (0 s), got 0", 12),
    ("at: 2", "at: 2\n    times: 3\n    every: 20", "schedule[0].at", "42 s is past the load of 30 s", 14),
    ("at: 2", "at: 2\n    stagger: 3", "schedule[0].stagger", "a target of several brokers, such as brokers:1,2", 15),
    ("at: 2", f"at: 1\n    times: 3\n    every: 2\n{NO_BROKER}", "schedule[1].target", "numbered 1 to 3", 17),
    ("at: 2", "at: 2\n    port: control", "schedule[0].port", "has no such key", 15),
    ("    at: 2\n", "", "schedule[0].at", "missing, but required", 12),
    ("name: good", "name: good\ncourse: {}", "course", "renamed: expected steps", 2),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "key", "expected", "line"), REFUSALS)
def test_a_refusal_names_file_line_and_key(old: str, new: str, key: str, expected: str, line: int) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(UsageFailure) as refusal:
        parse_experiment(GOOD.replace(old, new, 1), "bad.yaml")
    message = str(refusal.value)
    assert message.startswith(f"bad.yaml:{line}: {key}: "), message
    assert expected in message


def test_a_transactional_lane_is_idempotent_and_has_its_settings() -> None:
    text = GOOD.replace(
        "acks: 1", "transactional: {size: 5, abort: 0.1, producers: 3, timeout_ms: 10000, reads: true, restarts: 2}"
    )
    experiment = parse_experiment(text, "good.yaml")
    lane = next(lane for _, _, lane in experiment.lanes)
    assert (lane.acks, lane.idempotence) == ("all", True)
    expected = {"size": 5, "abort": 0.1, "producers": 3, "timeout_ms": 10_000, "reads": True, "restarts": 2}
    assert lane.to_json()["transactional"] == expected
    again = parse_experiment(dump_experiment(experiment, {}), "again.yaml")
    assert again.model_dump() == experiment.model_dump()


def test_a_group_whose_brokers_assign_has_no_assignor() -> None:
    newer = "brokers: 3\n  kafka_version: 4.3.1\n  metadata_mode: kraft"
    text = GOOD.replace("acks: 1", "group: {protocol: consumer}").replace("brokers: 3", newer)
    lane = next(lane for _, _, lane in parse_experiment(text, "good.yaml").lanes)
    assert lane.group is not None
    assert lane.group.assignor is None
    other = text.replace("protocol: consumer", "protocol: consumer, session_timeout_ms: 9000")
    with pytest.raises(UsageFailure, match=r"lanes\[0\]\.group\.session_timeout_ms: .*expected 6000, or set it in"):
        parse_experiment(other, "good.yaml")
    configured = "metadata_mode: kraft\n  broker_configs: {group.consumer.session.timeout.ms: 9000}"
    parse_experiment(other.replace("metadata_mode: kraft", configured), "good.yaml")


STEPPED = """\
name: stepped
phases:
  - phase: cut
    lanes: [{lane: one, acks: "1", leader: 2}]
    KEY:
      target: leader(one)
      steps: [cut-replication, append, kill-leader, elect, restart]
"""
BAD_TEXTS = [
    ("name: x\nlanes: '\0'", "bad.yaml:2: not YAML: the character '\\x00' is not allowed"),
    ("name: x\nname: y", 'bad.yaml:2: not YAML: found duplicate key "name"'),
    ("name: x\nlanes: [", "bad.yaml:2: not YAML"),
    (GOOD + "seed: !mine 3\n", "bad.yaml:15: seed: expected a whole number, got '!mine 3'"),
    ("[" * 1000, "bad.yaml:1: not an experiment: its values are nested too deep"),
    ("- a", "bad.yaml:1: expected a mapping with the keys of an experiment"),
    (STEPPED.replace("KEY", "steps").replace("elect", "vote"), "bad.yaml:7: phases[0].steps.steps[3]: "),
    (STEPPED.replace("KEY", "lockstep"), "bad.yaml:5: phases[0].lockstep: renamed: expected steps"),
    (GOOD + "steps: {target: nobody, steps: [append]}\n", "bad.yaml:15: steps: expected either steps or sche"),
    (STEPPED.replace("KEY", "outside_faults: [kill]\n    steps"), "bad.yaml:6: phases[0].steps: expected either steps"),
]


@pytest.mark.parametrize(("text", "expected"), BAD_TEXTS, ids=range(len(BAD_TEXTS)))
def test_a_refused_text_has_one_line_that_names_the_place(text: str, expected: str) -> None:
    with pytest.raises(UsageFailure) as refusal:
        parse_experiment(text, "bad.yaml")
    assert str(refusal.value).startswith(expected)
    assert "\n" not in str(refusal.value)


def test_what_is_written_out_is_read_back_the_same() -> None:
    of_brokers = "brokers: 3\n  broker_versions: {1: 3.8.1}\n  configs_of: {2: {num.io.threads: 4}}"
    experiment = parse_experiment(GOOD.replace("brokers: 3", of_brokers), "good.yaml")
    written = dump_experiment(experiment, {"recorded": {"run_id": "a-run"}})
    again = parse_experiment(written, "again.yaml")
    assert again.model_dump() == experiment.model_dump()
    assert again.recorded == {"run_id": "a-run"}


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(EXPERIMENTS.rglob("*.yaml")) if "behaviours" not in path.parts],
    ids=lambda path: path.name,
)
def test_every_experiment_of_the_repository_is_valid(path: Path) -> None:
    load_experiment(path)


def test_an_entry_may_stand_for_several_faults() -> None:
    entries = """\
  - {fault: kill, target: leader(one), at: 1, duration: 1, times: 2, every: 2.5}
  - {fault: stop, target: "brokers:3,1", at: 10, duration: 1, times: 2, every: 9, stagger: 4}
"""
    experiment = parse_experiment(GOOD[: GOOD.index("  - fault")] + entries, "good.yaml")
    hit = [(fault.kind, fault.target.text, fault.at, fault.duration) for fault in experiment.phases[0].faults]
    assert hit == [
        ("kill", "leader(one)", 1.0, 1.0), ("kill", "leader(one)", 3.5, 1.0), ("stop", "broker:3", 10.0, 1.0),
        ("stop", "broker:1", 14.0, 1.0), ("stop", "broker:3", 19.0, 1.0), ("stop", "broker:1", 23.0, 1.0),
    ]  # fmt: skip
    written = dump_experiment(experiment, {})
    assert parse_experiment(written, "again.yaml").phases[0].faults == experiment.phases[0].faults
    assert not any(key in written for key in ("times", "every", "stagger"))


def test_a_copy_of_an_experiment_has_the_faults_and_lanes_of_its_own_values() -> None:
    text = "name: x\nlanes: [{lane: one}]\nschedule: [{fault: kill, target: leader(one), at: 1, duration: 1}]\n"
    calm = parse_experiment("name: x\nlanes: [{lane: one}]\n", "calm.yaml")
    rough = parse_experiment(text, "rough.yaml")
    assert [lane.faults for _, _, lane in rough.lanes] == [("kill",)]
    copy = rough.model_copy(update={"phases": calm.phases})
    assert [lane.faults for _, _, lane in copy.lanes] == [()]
    (phase,) = rough.phases
    assert phase.model_copy(update={"schedule": ()}).faults == ()

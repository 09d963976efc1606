"""Thousands of damaged experiment files: each is accepted, or refused in words of our own."""

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.file import parse_experiment
from kafka_chaos.harness.experiment.lane_specs import LaneSpec, WorkloadSpec
from kafka_chaos.harness.experiment.specs import Experiment, PhaseSpec

ROOT = Path(__file__).parents[3]
EVERY_KEY = """\
name: every-key
description: all keys of an experiment
seed: 7
cluster:
  brokers: 3
  metadata_mode: zookeeper
  zookeepers: 1
  controllers: 0
  elr: false
  links: true
  security: plaintext
  kafka_version: 3.9.1
  broker_versions: {2: 3.8.1}
  controller: 1
  broker_configs: {log.roll.ms: 10000}
  configs_of: {1: {log.roll.ms: 20000}}
  assume: [offsets.retention.minutes]
phases:
  - phase: drawn
    workload: {rate: 100, record_size: 100, duration: 40, settle_timeout: 60}
    outside_faults: [pause]
    lanes:
      - lane: safe
        topic: orders
        partitions: 2
        replication_factor: 3
        min_insync_replicas: 2
        unclean_leader_election: false
        acks: all
        idempotence: true
        max_in_flight: 5
        cleanup_policy: delete
        transactional: {size: 10, abort: 0.1, producers: 3, timeout_ms: 10000, reads: true, restarts: 2}
        group: {members: 3, assignor: range, protocol: classic, static: true, commits: auto, crashes: 1, freezes: 1}
        topic_configs: {retention.ms: 100000}
        assume: [queuing.strategy]
        client: librdkafka
        producer_configs: {linger.ms: 5}
        consumer_configs: {fetch.min.bytes: 5}
      - {lane: made, loop: {source: safe, offsets: before, group: {joins: 1, leaves: 1, session_timeout_ms: 6000}}}
      - {lane: created, created_at: 3, recover_within: 40, producer_configs: {linger.ms: 2},
        cleanup_policy: compact, keys: 9, tombstones: 0.1}
    schedule:
      generate: {faults: [kill, pause], targets: [leader(safe)], count: 2, first_at: 2, duration: [1, 3], gap: [2, 4],
        around_timeouts: true}
  - phase: steps
    lanes: [{lane: fast, acks: 1, leader: 1}]
    steps:
      target: leader(fast)
      steps: [append, kill-leader, elect, restart]
      step_seconds: 1
  - phase: timed
    lanes:
      - {lane: late, acks: 0, lives: [{count: 2, at: 5, lasts: 3, ends: kill, returns: 1}]}
      - {lane: later, created_at: 2}
    schedule:
      - fault: partition
        target: leader(late)
        at: 2
        duration: 3
        action: reject
      - {fault: partition, target: broker:2, at: 6, duration: 2, port: replication, direction: out}
"""
OTHERS = ("dead-letters", "share-groups", "tiered-storage", "demo", "known/kafka-8803")
TEXTS = (
    EVERY_KEY,
    "name: elsewhere\ncluster: {advertise: engine.example}\nlanes: [{lane: a}]\n",
    *((ROOT / "experiments" / f"{name}.yaml").read_text() for name in OTHERS),
    (ROOT / "tests/harness/run/small.yaml").read_text(),
)
VALUES = (
    *("", "~", "-1", "0", "1", "3", "7", "1e400", "-1e400", ".nan", ".inf", "0x1F", "0o7", "1_000", "9" * 20, "1.5"),
    *("yes", "true", "on", "''", "''", '"\\x00"', '"\\ud800"', "2024-99-99", "2024-01-01", "12:30:45", "[]", "{}"),
    *("[[[]]]", "{a: {b: {c: []}}}", "{1: 2}", "{~: ~}", "{[1]: 2}", "{? {a: 1} : 2}", "!!python/object:os.system x"),
    *("!!binary aGk=", "!!set {a, b}", "!mine 3", "*nobody", "&a [*a]", "&a {b: *a}", "{<<: {acks: 1}}", "{<<: 3}"),
    *("|\n  text", ">-", "leader()", "leader(nine)", "broker:0", "broker:x", "random", "kill", "bomb", "all"),
    *("a" * 300, "\t", "'" + "[" * 5, "[" * 2000, "{a: " * 500, "4.0.0", "9.9.9", "3.9.1", "[1, 2]", "[a, b]"),
    *("x" * 5000, "'" + "long name " * 500 + "'", "[" + "name, " * 800 + "]", "{" + "a: 1, b" * 700 + ": 1}"),
    *("%", "@", "`", "\ufeff", "---", "...", "é", "\x85", "\u2028"),
)
CHARACTERS = (*"\0\x07\x1b\x7f\t\r\n :,-[]{}#&*!|>'\"%@`?~<=", "\ufffe", "\ud7ff", "😀", "\u2028")


def mutated(number: int) -> str:
    """The mutation of this number, of one of `TEXTS`: one to three changes."""
    drawn = random.Random(number)
    text = drawn.choice(TEXTS)
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        text = drawn.choice(CHANGES)(drawn, text)
    return text


def other_value(drawn: random.Random, text: str) -> str:
    places = list(re.finditer(r"(?<=: )[^\n{}\[\],]+", text))
    if not places:
        return text
    place = drawn.choice(places)
    return text[: place.start()] + drawn.choice(VALUES) + text[place.end() :]


def other_key(drawn: random.Random, text: str) -> str:
    places = list(re.finditer(r"[a-z_]+(?=:)", text))
    if not places:
        return text
    place, other = drawn.choice(places), drawn.choice([*(key.group() for key in places), *VALUES])
    return text[: place.start()] + other + text[place.end() :]


def other_character(drawn: random.Random, text: str) -> str:
    at = drawn.randrange(len(text) + 1)
    return text[:at] + drawn.choice(CHARACTERS) + text[at + drawn.randint(0, 1) :]


def other_lines(drawn: random.Random, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    at, other = drawn.randrange(len(lines)), drawn.randrange(len(lines))
    change = drawn.randrange(5)
    if change == 0:
        del lines[at]
    elif change == 1:
        lines.insert(other, lines[at])
    elif change == 2:
        lines[at], lines[other] = lines[other], lines[at]
    elif change == 3:
        lines[at] = " " * drawn.randint(0, 6) + lines[at].lstrip()
    else:
        lines = lines[:at]
    return "".join(lines)


CHANGES = (other_value, other_value, other_key, other_character, other_lines)


def complaints(numbers: range) -> Iterator[str]:
    """The wrong answers to these mutations."""
    for number in numbers:
        text = mutated(number)
        try:
            parse_experiment(text, "bad.yaml")
        except UsageFailure as refusal:
            if len(str(refusal)) > 2000:
                yield f"{number}: a message of {len(str(refusal))} characters"
            for line in str(refusal).splitlines():
                if (
                    not re.match(r"bad\.yaml:\d+: |… and \d+ more lines?$", line)
                    or "should be" in line
                    or len(line) > 500
                ):
                    yield f"{number}: {line[:200]}"
        except Exception as error:  # noqa: BLE001 - any other error is what is looked for
            yield f"{number}: {error!r:.200}"


@pytest.mark.parametrize("count", [50, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])])
def test_mutated_files_give_no_traceback(count: int) -> None:
    assert list(complaints(range(count))) == []


def test_what_is_mutated_is_valid_and_has_every_key() -> None:
    for text in TEXTS:
        parse_experiment(text, "good.yaml")
    for model in (Experiment, ClusterSpec, PhaseSpec, LaneSpec, WorkloadSpec):
        assert all(any(f"{key}:" in text for text in TEXTS) for key in model.model_fields if key != "recorded")

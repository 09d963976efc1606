"""Keeps predictions on disk, so that no run waits for the same answer twice.

The question to the model is a lane, perhaps in a lock-step phase; the answer is the prediction. A cached file's name
is a digest of everything that the answer depends on: the lane's fields that the model uses, the steps of the phase, and
the model's version. If the file is damaged or can't be read, the answer is computed again; a cache that can't be
written only costs time.

Some answers ship with the package (answers.json), so that no search is needed for the lanes of experiments/ and of the
documentation. The documentation's lanes also have an answer by the rules of releases before 3.7, and one with eligible
leader replicas. The file names the model's version that gave the answers; any other version ignores it. Most sentences
of answers recur, so the file lists each once, and answers have their numbers.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.files import cache_home, write_whole
from kafka_chaos.contract.lane.families import FAMILY_KEYS
from kafka_chaos.contract.lane.fault_kinds import faults_of_steps
from kafka_chaos.contract.lane.groups import LATEST, Group
from kafka_chaos.contract.lane.lanes import COMPACT, Lane
from kafka_chaos.contract.lane.share import NO_LETTERS
from kafka_chaos.reference_model.clients.rules import rules_of_client
from kafka_chaos.reference_model.groups.rules import rules_of_group
from kafka_chaos.reference_model.lane.lockstep_phase import LockstepStep
from kafka_chaos.reference_model.predict.defects import beyond_search
from kafka_chaos.reference_model.predict.prediction import MAX_STATES, internal_topics, predict
from kafka_chaos.reference_model.predict.result import Prediction
from kafka_chaos.reference_model.predict.transactional import rules_of_transactions
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from kafka_chaos.reference_model.protocol.rules import as_obeyed, rules_of
from kafka_chaos.reference_model.search import Budget, tell_progress

FILE = "answers.json"  # The shipped answers.
FORMAT_VERSION = 2
"""The version of the cached files' format."""
PROGRESS_SECONDS = 3.0
"""The time between reports on the progress of a search."""
MODEL_VERSION = 8
"""The version of the model. A change of a rule that may change an answer has to raise it, because shipped and cached
answers of any other version are refused. Tests search a sample of the shipped answers again by day, and all of them by
night, so that a change without a new version is noticed."""


def shipped_answer(key: str, model: int) -> Prediction | None:
    """The shipped answer to the question with this `question_key`; None if version `model` of the model gave none."""
    content = _shipped_content()
    body = content["answers"].get(key) if content.get("model") == model else None
    return None if body is None else Prediction.from_json(_with_sentences(body, content["sentences"]))


@cache
def _shipped_content() -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = json.loads((files(__package__) / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content


def _with_sentences(body: Mapping[str, Any], sentences: list[str]) -> dict[str, Any]:
    """A shipped answer in the form of `predict --json`, with sentences instead of their numbers."""

    def entry(status: str, why: list[int], defects: list[tuple[list[str], list[int]]]) -> dict[str, Any]:
        defects_in_full = [
            {"id": ids[0], "with": ids[1:], "why": [sentences[number] for number in numbers]}
            for ids, numbers in defects
        ]
        return {"status": status, "why": [sentences[number] for number in why], "known_defects": defects_in_full}

    parts = {part: {name: entry(*packed) for name, packed in body.get(part, {}).items()} for part in FAMILY_KEYS}
    return {**parts, "scope": body["scope"]}


def predict_cached(
    lane: Lane,
    lockstep: Sequence[LockstepStep] | None = None,
    cache_dir: Path | None = None,
    budget: Budget | None = None,
) -> Prediction:
    """The answer of `predict`, taken from the package or `cache_dir` if they hold it.

    The default of `cache_dir` is the folder `predictions` of the user's cache. A search without a `budget` of its own
    says on standard error how far it is, every `PROGRESS_SECONDS`. Raises what `predict` raises.
    """
    if lane.assume:
        return predict_cached(replace(lane, assume=()), lockstep, cache_dir, budget).assuming(lane.unjudged)
    if (answer := shipped_answer(question_key(lane, lockstep), MODEL_VERSION)) is not None:
        return answer
    directory = cache_home() / "predictions" if cache_dir is None else cache_dir
    path = directory / f"{cache_key(lane, lockstep)}.json"
    if (cached := _read(path)) is not None:
        return cached
    budget = budget or Budget(MAX_STATES, progress=tell_progress, interval=PROGRESS_SECONDS)
    prediction = predict(lane, lockstep=lockstep, budget=budget)
    _write(path, prediction)
    return prediction


def cache_key(lane: Lane, lockstep: Sequence[LockstepStep] | None) -> str:
    """The digest of all that a cached file depends on: the question, the model's version, and the file's format."""
    return hashlib.sha256(f"{FORMAT_VERSION} {MODEL_VERSION} {question_key(lane, lockstep)}".encode()).hexdigest()


def question_key(lane: Lane, lockstep: Sequence[LockstepStep] | None) -> str:
    """The digest of a question to the model: a lane, or a lane in a lock-step phase.

    The question leaves out the lane's name and topic. It says at most whether the lane has several partitions. The
    rules stand for the cluster, so that versions and modes with the same rules share an answer.
    """
    lane, share = as_obeyed(lane), lane.share
    # Most internal topics have these settings, in the order of `_settings`, and are left out of the question.
    usual = [lane.replication_factor, 1, False, False, sorted(lane.faults)]
    struck = lane if lockstep is None else replace(lane, faults=faults_of_steps(lockstep))
    beyond = [anomaly for anomaly, _ in beyond_search(struck, ())]
    question = {
        "rules": asdict(rules_of(lane)),
        "replication_factor": lane.replication_factor,
        "min_insync_replicas": lane.min_insync_replicas,
        "unclean_leader_election": lane.unclean_leader_election,
        "acks": lane.acks,
        "idempotence": lane.idempotence,
        "max_in_flight": lane.max_in_flight,
        "faults": sorted(lane.faults),
        "lockstep": None if lockstep is None else [str(step) for step in lockstep],
        "known_defects": [defect.id for defect in MODELLED_DEFECTS.values() if defect.concerns(lane)],
        **({"flushes": True} if lane.flushes else {}),
        **({"beyond": beyond} if beyond else {}),
        **({"compacted": True} if lockstep and lane.cleanup_policy == COMPACT else {}),
        **_client(lane),
        **_transactions(lane),
        **_groups(lane),
        **({} if share is None else {"share": [share.delivery_limit, share.lost_deliveries(len(lane.faults))]}),
        **({} if share is None else {"share_start": share.start}),
        **({} if share is None or share.dead_letters == NO_LETTERS else {"dead_letters": True}),
        **{name: _settings(topic) for name, topic in internal_topics(lane).items() if _settings(topic) != usual},
    }
    return hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()


def _client(lane: Lane) -> dict[str, Any]:
    """The properties of a lane's client that an answer depends on, except those for transactions (`_transactions`)."""
    properties = {}
    if MODELLED_DEFECTS["KAFKA-15591"].concerns(lane) and not rules_of_client(lane).acknowledges_implicitly:
        properties["answers_each"] = True  # An acknowledgement acknowledges its own record alone.
    if MODELLED_DEFECTS["kafkajs-822"].concerns(lane):
        properties["several_partitions"] = lane.partitions > 1
    return properties


def _settings(topic: Lane) -> list[Any]:
    """The settings of an internal topic that an answer depends on."""
    settings = [topic.replication_factor, topic.min_insync_replicas, topic.unclean_leader_election, topic.flushes]
    return [*settings, sorted(topic.faults), *[True] * rules_of(topic).elects_eligible]


def _transactions(lane: Lane) -> dict[str, Any]:
    """The settings of a lane's transactions that an answer depends on."""
    settings = lane.transactional
    if settings is None:
        return {}
    rules = rules_of_transactions(lane)
    several = [settings.size > 1, settings.producers > 1, lane.partitions > 1 or lane.loop is not None]
    return {"transactions": [rules.name, rules.verifies, *several]}


def _groups(lane: Lane) -> dict[str, Any]:
    """The settings of a lane's group and its loop that an answer depends on."""
    settings: dict[str, Any] = {}
    if lane.group is not None:
        settings["group"] = _group(lane.group, lane.group.commits, lane.version)
    if lane.loop is not None:
        settings["loop"] = _group(lane.loop.group, lane.loop.offsets, lane.version)
    return settings


def _group(group: Group, commits: str, version: str) -> list[Any]:
    # Answers depend on whether there may be several members, and whether any may crash or leave, not on how many.
    may_happen = [group.members > 1 or group.joins > 0, group.crashes > 0, group.leaves > 0]
    latest = [group.reset] if group.reset == LATEST else []
    return [rules_of_group(group, version).name, commits, group.static, *may_happen, *latest]


@cache
def model_digest() -> str:
    """The digest that stands for the model in verdicts. It covers the version, known defects and shipped answers.

    The rules' source is not digested, because every change of a rule changes the version or an answer.
    """
    package = files("kafka_chaos.reference_model")
    digest = hashlib.sha256(f"{MODEL_VERSION}\0".encode())
    for data in ("protocol/known_defects.toml", "predict/answers.json"):
        digest.update(package.joinpath(*data.split("/")).read_bytes() + b"\0")
    return digest.hexdigest()


def _read(path: Path) -> Prediction | None:
    try:
        value: dict[str, Any] = json.loads(path.read_text("utf-8"))
        body = value["prediction"]
        if value["digest"] != _body_digest(body):
            return None
        return Prediction.from_json(body)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _write(path: Path, prediction: Prediction) -> None:
    body = prediction.to_json()
    text = json.dumps({"digest": _body_digest(body), "prediction": body}, indent=1)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text)


def _body_digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

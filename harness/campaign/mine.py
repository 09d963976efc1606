"""Answers for a producer's own settings, from the record: what runs with the same settings showed.

Guarantee: what no run tried is not called safe, and every key of the file that runs do not vary is named.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.errors import UsageFailure, quoted
from kafka_chaos.contract.command.files import text_of
from kafka_chaos.contract.lane.configuration import UNCLASSIFIED, classified
from kafka_chaos.contract.lane.lanes import ACKS, Lane
from kafka_chaos.harness.campaign.cells import CellSummary, cells_of
from kafka_chaos.harness.campaign.lane_runs import LaneRun
from kafka_chaos.harness.clients.kinds import IN_PROCESS, KINDS
from kafka_chaos.harness.experiment.file import document_of

JAVA = "java"
_IDEMPOTENCE, _MIN_ISR = "enable.idempotence", "min.insync.replicas"
_UNCLEAN = "unclean.leader.election.enable"
_IN_FLIGHT = "max.in.flight.requests.per.connection"
_NAMED = {"request.required.acks": "acks", "max.in.flight": _IN_FLIGHT}
"""Second names of keys."""
_OF_LIBRDKAFKA = ("request.required.acks", "message.timeout.ms", "queue.buffering.max.ms", "statistics.interval.ms")
_SPRING = "spring.kafka."
_NAMED_BY_SPRING = {"transaction.id.prefix": "transactional.id"}
_USUAL = Lane(lane="usual").to_json()
_NEITHER: Mapping[str, Any] = {"transactional": False, "group": None, "loop": None}


@dataclass(frozen=True)
class Settings:
    """A producer's settings. `lane`: keys of a lane. `client`: the kind that it is for; `ignored`: other keys."""

    client: str
    lane: Mapping[str, Any]
    ignored: Sequence[str]


@dataclass(frozen=True)
class Answer:
    """The cells that have these settings, of the client's kind first, or of others where it has none."""

    settings: Settings
    cells: Sequence[CellSummary]
    of_client: bool

    def to_json(self) -> dict[str, Any]:
        """The answer as `--json` prints it."""
        return {
            "client": self.settings.client,
            "settings": dict(self.settings.lane),
            "ignored": list(self.settings.ignored),
            "of_client": self.of_client,
            "cells": [cell.to_json() for cell in self.cells],
        }

    def __str__(self) -> str:
        shown = ", ".join(f"{key}={json.dumps(value)}" for key, value in self.settings.lane.items())
        lines = [f"{self.settings.client}: {shown}"]
        if not self.cells:
            lines.append("No run has tried these settings: nothing is known about them.")
        elif not self.of_client:
            lines.append(f"No run has tried them with {self.settings.client}; with other clients:")
        for cell in self.cells:
            shares = "; ".join(f"{name} {share}" for name, share in cell.shares.items())
            gaps = "" if cell.gaps is None else f"; longest gap {cell.gaps[0]:.1f} to {cell.gaps[2]:.1f} s"
            lines.append(f"  {cell.cell.client} · {cell.cell.cluster} · {cell.settings} · {cell.cell.faults}")
            lines.append(f"    {cell.verdict}: {shares}{gaps}")
        if self.settings.ignored:
            ignored = ", ".join(self.settings.ignored)
            lines.append(f"Runs do not vary these keys, so the answer does not count them: {ignored}")
        return "\n".join(lines)


def answer(path: Path, record: Sequence[LaneRun], client: str | None = None) -> Answer:
    """The answer of the record to the settings in a file. `client`: a kind; by default, the keys tell it.

    Raises `UsageFailure` for a file that is none, with its line, and for a kind that there is not.
    """
    settings = read_settings(path, client)
    found = [cell for cell in cells_of(record) if _agrees(json.loads(cell.cell.settings), settings.lane)]
    own = [cell for cell in found if cell.cell.client.split(" ")[0] == settings.client]
    return Answer(settings, own or found, bool(own))


def read_settings(path: Path, client: str | None = None) -> Settings:
    """The settings of a producer in a properties file, or in one of Spring Boot (YAML too).

    Keys that are missing have the client's defaults.
    """
    given = _of_spring(_written(path))
    if not any(classified("producer", key) is not UNCLASSIFIED is classified("broker", key) for key in given):
        raise UsageFailure(f"{path}: no key of a producer is in it: expected some, such as acks or bootstrap.servers")
    kind = client or (IN_PROCESS if any(key in given for key in _OF_LIBRDKAFKA) else JAVA)
    if kind not in KINDS:
        raise UsageFailure(f"--client {quoted(kind)}: expected {', '.join(KINDS)}")
    known = {_NAMED.get(key, key): value for key, value in given.items()}
    acks = "all" if known.get("acks") == "-1" else known.get("acks", "all")
    if acks not in ACKS:
        raise UsageFailure(f"{path}: acks: {quoted(acks)}: expected {', '.join(ACKS)} or -1")
    in_flight = _number(path, _IN_FLIGHT, known.get(_IN_FLIGHT, "5"))
    # Java's producers are idempotent unless a key is against it (KIP-679, since 3.0); librdkafka's are not.
    usual = "true" if kind == JAVA and acks == "all" and in_flight <= 5 else "false"
    lane: dict[str, Any] = {
        "acks": acks,
        "idempotence": _truth(path, _IDEMPOTENCE, known.get(_IDEMPOTENCE, usual)),
        "max_in_flight": in_flight,
    }
    if "transactional.id" in known:
        lane |= {"transactional": True, "idempotence": True}
    if lane["idempotence"] and _IN_FLIGHT not in known:
        lane["max_in_flight"] = max(KINDS[kind].idempotent_in_flight)
    if _MIN_ISR in known:
        lane["min_insync_replicas"] = _number(path, _MIN_ISR, known[_MIN_ISR])
    if _UNCLEAN in known:
        lane["unclean_leader_election"] = _truth(path, _UNCLEAN, known[_UNCLEAN])
    used = {"acks", _IDEMPOTENCE, _IN_FLIGHT, "transactional.id", _MIN_ISR, _UNCLEAN, *_NAMED}
    return Settings(kind, lane, sorted(key for key in given if key not in used))


def _agrees(settings: Mapping[str, Any], lane: Mapping[str, Any]) -> bool:
    """Whether a cell has these settings and neither group nor loop; a topic's, only where the file has them."""
    found = {**_USUAL, **settings, "transactional": "transactional" in settings}
    return all(found.get(key) == value for key, value in {**_NEITHER, **lane}.items())


def _truth(path: Path, key: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise UsageFailure(f"{path}: {key}: {quoted(value)}: expected true or false")
    return value.lower() == "true"


def _number(path: Path, key: str, value: str) -> int:
    if not value.isdecimal() or not int(value):
        raise UsageFailure(f"{path}: {key}: {quoted(value)}: expected a whole number of at least 1")
    return int(value)


def _written(path: Path) -> dict[str, str]:
    """The keys of a file and their values, as text; those of nested mappings in YAML are joined by dots."""
    if path.suffix not in (".yml", ".yaml"):
        return _properties(path)
    written: dict[str, str] = {}

    def read(prefix: str, value: object) -> None:
        if isinstance(value, Mapping):
            for key, inner in value.items():
                read(f"{prefix}.{key}".lstrip("."), inner)
        else:
            written[prefix] = str(value).lower() if isinstance(value, bool) else str(value)

    read("", document_of(text_of(path), str(path), "a configuration of Spring Boot")[1])
    if not any(key.startswith(_SPRING) for key in written):
        raise UsageFailure(f"{path}: YAML without spring.kafka: expected that, or lines KEY=VALUE in a properties file")
    return written


def _of_spring(written: Mapping[str, str]) -> Mapping[str, str]:
    """The keys as Kafka names them: of a file of Spring Boot, those of its producers, the more general ones first."""
    if not any(key.startswith(_SPRING) for key in written):
        return written
    settings: dict[str, str] = {}
    for part in ("properties.", "producer.", "producer.properties."):
        for key, value in written.items():
            name = key.removeprefix(_SPRING + part)
            if name == key or (part == "producer." and name.startswith("properties.")):
                continue
            name = name if part.endswith("properties.") else name.replace("-", ".")
            settings[_NAMED_BY_SPRING.get(name, name)] = value
    return settings


def _properties(path: Path) -> dict[str, str]:
    """The keys of a file in the format of java.util.Properties, without continued lines and escapes."""
    found: dict[str, str] = {}
    for number, line in enumerate(text_of(path).splitlines(), 1):
        text = line.strip()
        if not text or text[0] in "#!":
            continue
        key, sign, value = text.partition("=" if "=" in text else ":")
        if not sign or not key.strip():
            raise UsageFailure(f"{path}:{number}: {quoted(text)}: expected KEY=VALUE")
        found[key.strip()] = value.strip()
    return found

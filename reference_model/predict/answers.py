"""Answers that ship with the package: the lanes of experiments/ and of the documentation need no search, and the latter
not in the releases before 3.7 and with eligible leader replicas either.

The file names the version of the model that gave the answers; any other version ignores it. Sentences, of which most
recur, are in a list of their own.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from kafka_chaos.contract.lane.transactions import PREDICTED_IN
from kafka_chaos.reference_model.predict.prediction import Prediction

FILE = "answers.json"
MODEL_VERSION = 1
"""The version of the model. Who changes a rule, so that an answer may change, raises it: shipped and cached answers of
any other version are refused. Tests search a sample of the shipped answers again by day, and all of them by night, so
that a change without a new version is noticed."""


def shipped(key: str, model: int) -> Prediction | None:
    """The shipped answer to the question of this key by this version of the model, if there is one."""
    content = _content()
    body = content["answers"].get(key) if content.get("model") == model else None
    return None if body is None else Prediction.from_json(_with_sentences(body, content["sentences"]))


@cache
def _content() -> Mapping[str, Any]:
    try:
        content: Mapping[str, Any] = json.loads((files(__package__) / FILE).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return content


def _with_sentences(body: Mapping[str, Any], sentences: list[str]) -> dict[str, Any]:
    def entry(status: str, why: list[int], defects: list[tuple[list[str], list[int]]]) -> dict[str, Any]:
        told = [
            {"id": ids[0], "with": ids[1:], "why": [sentences[number] for number in numbers]}
            for ids, numbers in defects
        ]
        return {"status": status, "why": [sentences[number] for number in why], "known_defects": told}

    told = {part: {name: entry(*packed) for name, packed in body.get(part, {}).items()} for part in PREDICTED_IN}
    return {**told, "scope": body["scope"]}

"""Each breach on brokers of its time: they take every step, and hold in the end what breaks the invariant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafka_chaos.conformance.reproduce.breaches.player import BREACH_FILE, BreachPlayer
from kafka_chaos.conformance.reproduce.breaches.stories import STORIES, BreachStory, read
from kafka_chaos.conformance.scenario.clusters import ClusterPool
from tests.clusters import needs_links

pytestmark = [pytest.mark.cluster, pytest.mark.slow, needs_links]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_brokers_of_its_time_take_every_step_of_a_breach(story: BreachStory, tmp_path: Path) -> None:
    with ClusterPool() as pool:
        played = BreachPlayer(story, story.versions[0], pool, tmp_path).play()
    assert not played.left
    document = json.loads((played.path / BREACH_FILE).read_text())
    assert [step["sentence"] for step in document["steps"]] == list(story.sentences)
    last = read(story).steps[-1]
    held = {int(broker): one for broker, one in document["observed"]["replicas"].items()}
    for broker, one in held.items():
        assert [record for record, _ in one["log"]] == list(last.replica(broker).log)
        assert one["high_watermark"] == last.replica(broker).high_watermark
        assert one["leads"] == (last.replica(broker).leader == broker)
    assert tuple(document["observed"]["isr"]) == last.isr

"""Random walks of the model on real brokers: they agree, and a wrong rule in the model is noticed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kafka_chaos.conformance.scenario.clusters import ClusterPool
from kafka_chaos.conformance.scenario.play import ModelOf
from kafka_chaos.conformance.walks.draw import draw
from kafka_chaos.conformance.walks.replay import replay
from kafka_chaos.contract.anomalies import Verdict
from kafka_chaos.reference_model.lockstep.brokers import Outcome
from kafka_chaos.reference_model.lockstep.cluster_model import URGENT, ClusterModel
from kafka_chaos.reference_model.lockstep.controller import session_ends
from kafka_chaos.reference_model.lockstep.state import ClusterConfig, ClusterState
from kafka_chaos.reference_model.protocol import PROTOCOLS

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("seed", "steps"), [(2, 6), (1, 12), (10, 12)])
def test_kafka_and_the_model_agree_after_every_step(seed: int, steps: int, pool: ClusterPool) -> None:
    group = draw(seed, steps=steps)
    record = replay(group, pool)
    assert record.verdict == Verdict.CONFORMS, f"{group}\n{record.reason}"
    assert [len(act.steps) for act in record.acts] == [1 + steps + len(group.closing)] * len(group.walks)


@pytest.mark.timeout(900)
def test_kafka_in_kraft_mode_and_the_model_agree_after_every_step() -> None:
    """With eligible leader replicas, which are on in new clusters since 4.1."""
    with ClusterPool(kraft_version="4.3.1") as pool:
        group = draw(24, kraft_version="4.3.1")
        record = replay(group, pool)
    assert record.verdict == Verdict.CONFORMS, f"{group}\n{record.reason}"


def truncates_to_the_high_watermark(config: ClusterConfig, states: frozenset[ClusterState]) -> ClusterModel:
    """Followers truncate as before KIP-101."""
    return ClusterModel(replace(config, protocol=PROTOCOLS["truncate-to-high-watermark"]), states=states)


def leaves_the_leader(config: ClusterConfig, states: frozenset[ClusterState]) -> ClusterModel:
    """The session of a broker that was killed ends, but what it led stays with it."""

    def session_only_ends(state: ClusterState, config: ClusterConfig) -> Iterator[Outcome]:
        for replica in state.replicas:
            if not replica.up and replica.registered:
                yield "The session ends.", state.with_replica(replica._replace(registered=False))

    urgent = tuple(session_only_ends if one is session_ends else one for one in URGENT)
    return ClusterModel(config, urgent=urgent, states=states)


@pytest.mark.parametrize(
    ("seed", "wrong", "field"), [(10, truncates_to_the_high_watermark, "log"), (1, leaves_the_leader, "leader")]
)
def test_a_wrong_rule_is_noticed_on_brokers(
    seed: int, wrong: ModelOf, field: str, pool: ClusterPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The test above shows that the right model agrees in these walks. Brokers that agree do so within seconds.
    monkeypatch.setattr("kafka_chaos.conformance.scenario.lockstep.SETTLE_TIMEOUT", 15.0)
    record = replay(draw(seed), pool, model_of=wrong)
    assert record.verdict == Verdict.VIOLATION, record.reason
    differing = {one.field for act in record.acts for one in act.steps[-1].differences}
    assert field in differing

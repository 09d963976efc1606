"""The full model in every interleaving of a few actions, and its agreement with the prediction's machine."""

from dataclasses import replace

import pytest
from cluster_search import ClusterSearch, search_cluster

from kafka_chaos.reference_model import Anomaly, Lane, Status, predict
from kafka_chaos.reference_model.lockstep.brokers import end_parked_fetch
from kafka_chaos.reference_model.lockstep.state import ClusterConfig
from kafka_chaos.reference_model.lockstep.stepping import Step, step
from kafka_chaos.reference_model.protocol import PROTOCOLS
from tests.reference_model.lockstep.cluster_steps import produce

KILL = (step("kill", broker=1), step("start", broker=1))
STOP = (step("stop", broker=1), step("start", broker=1))
POWER_LOSS = (step("power_loss", broker=1, kept=0), step("start", broker=1))
ZOMBIE = (
    step("cut", channel="control", source=2, target=1),
    step("expire_session", broker=1),
    step("heal", channel="control", source=2, target=1),
)
SLOW_FOLLOWER = (
    step("cut", channel="replication", source=2, target=1),
    step("expire_lag"),
    step("heal", channel="replication", source=2, target=1),
)
TWO = ClusterConfig(brokers=(1, 2), controller=2)
FAULTS = [
    pytest.param(fault, steps, unclean, id=f"{fault}{'-unclean' * unclean}", marks=[pytest.mark.slow] if later else [])
    for fault, steps, nightly in (
        ("kill", KILL, {False}),
        ("stop", STOP, {True}),
        ("session-expiry", ZOMBIE, {False}),
        ("power-loss", POWER_LOSS, {True}),
    )
    for unclean in (False, True)
    for later in [unclean in nightly]
]
"""Every fault, and each kind of election under two of them; by night under all."""


def search(config: ClusterConfig, *groups: tuple[Step, ...]) -> ClusterSearch:
    found = search_cluster(config, groups, optional=(end_parked_fetch,))
    assert found.complete
    return found


@pytest.mark.parametrize("idempotent", [False, True])
@pytest.mark.parametrize("environment", [KILL, STOP, ZOMBIE], ids=["kill", "stop", "zombie"])
def test_clean_faults_break_nothing_but_the_count_of_copies(environment: tuple[Step, ...], idempotent: bool) -> None:
    load = (produce("m1", idempotent=idempotent), produce("m2", idempotent=idempotent))
    found = search(replace(TWO, brokers=(1, 2, 3)), load, environment)
    assert set(found.breaches) == (set() if idempotent else {"no_duplicate"})


def test_the_high_watermark_variant_loses_a_committed_record_to_one_kill() -> None:
    config = ClusterConfig(controller=2, protocol=PROTOCOLS["truncate-to-high-watermark"])
    found = search(config, (produce("m1"), produce("m2")), KILL)
    assert "truncate" in found.breaches["strong_isr"]


@pytest.mark.parametrize("acks", ["0", "1", "all"])
@pytest.mark.parametrize(("fault", "environment", "unclean"), FAULTS)
def test_the_full_model_and_the_prediction_agree_on_what_can_be_lost(
    acks: str, fault: str, environment: tuple[Step, ...], unclean: bool
) -> None:
    lane = Lane(lane="both", acks=acks, faults=(fault,), replication_factor=2, unclean_leader_election=unclean)
    predicted = predict(lane).status(Anomaly.LOST_WRITE) is Status.PERMITTED
    config = replace(TWO, unclean_leader_election=unclean)
    found = search(config, (produce("m1", acks), produce("m2", acks)), environment, SLOW_FOLLOWER)
    assert ("acknowledged_by_all_kept" in found.breaches) == predicted


@pytest.mark.parametrize("idempotence", [False, True])
@pytest.mark.parametrize("minimum", [1, 2])
def test_the_full_model_and_the_prediction_agree_on_duplicates_with_acks_all(idempotence: bool, minimum: int) -> None:
    lane = Lane(
        lane="both", idempotence=idempotence, faults=("kill",), replication_factor=2, min_insync_replicas=minimum
    )
    predicted = predict(lane).status(Anomaly.DUPLICATE) is Status.PERMITTED
    config = replace(TWO, min_insync_replicas=minimum)
    load = (produce("m1", idempotent=idempotence), produce("m2", idempotent=idempotence))
    found = search(config, load, KILL, SLOW_FOLLOWER)
    assert ("no_duplicate" in found.breaches) == predicted

"""Fetches of one broker: as a consumer's, or as a debugging consumer's where only that is answered."""

import struct
from collections.abc import Mapping

import pytest

from kafka_chaos.conformance.broker_client import ObservingClient
from tests.harness.cluster.broker.served import FETCH, OF_0_10_2, OF_2_0, broker


@pytest.mark.parametrize(("newest", "version"), [(OF_0_10_2, 3), (OF_2_0, 8)])
def test_a_follower_before_kip_392_is_asked_as_a_debugging_consumer(newest: Mapping[int, int], version: int) -> None:
    with broker(newest, ObservingClient) as (client, asked):
        found = client.fetch("t")
    assert found.high_watermark == 7
    ((key, used, body),) = asked
    assert (key, used) == (FETCH, version)
    assert struct.unpack(">i", body[:4]) == (-2,)


def test_a_broker_that_fences_nobody_is_not_asked_for_its_leader_epoch() -> None:
    with broker(OF_2_0, ObservingClient) as (client, asked):
        assert client.leader_epoch("t") is None
    assert asked == []

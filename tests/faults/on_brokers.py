"""Helpers of tests of faults on real brokers."""

from typing import Any

import pytest

from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.faults.fault import Fault, Nodes, Proof
from kafka_chaos.harness.cluster.cluster import ClusterLayout
from kafka_chaos.harness.cluster.fault_control import ClusterView
from tests.clusters import mode_of


def in_both_modes(by_day: ClusterLayout, at_night: ClusterLayout) -> Any:
    """A module's fixture `layout`: one layout by day, the other at night, too."""

    @pytest.fixture(scope="module", params=[by_day, pytest.param(at_night, marks=pytest.mark.slow)], ids=mode_of)
    def layout(request: pytest.FixtureRequest) -> ClusterLayout:
        return request.param  # type: ignore[no-any-return]

    return layout


def proof_of(fault: Fault, view: ClusterView, nodes: Nodes | None = None, *, timeout: float = 20) -> Proof:
    """The proof of a fault that was injected, once there is one."""
    hit = fault.target.resolve(view, 0) if nodes is None else nodes

    def proof() -> Proof | None:
        found = fault.proof(view, hit)
        return found if found.took_effect else None

    what = f"{fault.kind} to take effect"
    return wait_until(proof, what, timeout=timeout, seen=lambda: fault.proof(view, hit).reason)

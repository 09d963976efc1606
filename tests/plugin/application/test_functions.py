"""The functions of an application, each in a thread."""

from __future__ import annotations

import threading

import pytest

from kafka_chaos.harness.errors import ClusterFailure
from kafka_chaos.harness.workload.application.handles import ApplicationThread


def test_a_function_that_raises_is_told_with_its_own_error() -> None:
    def broken() -> None:
        raise ValueError("no stock")

    thread = ApplicationThread(broken, what="the producer function of lane orders", over=threading.Event())
    thread.start()
    with pytest.raises(
        ClusterFailure, match="the producer function of lane orders raised ValueError: no stock"
    ) as reported:
        thread.end()
    assert isinstance(reported.value.__cause__, ValueError)


def test_a_function_that_does_not_return_is_told_what_to_do() -> None:
    stuck = threading.Event()
    thread = ApplicationThread(lambda: stuck.wait(30), what="the consumer function", over=threading.Event())
    thread.start()
    with pytest.raises(ClusterFailure, match=r"let it loop while handle\.running"):
        thread.end(timeout=0.05)
    stuck.set()

"""A helper process and what it is asked."""

import pytest

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.faults.helper import Helper


def test_an_answer_that_nobody_waited_for_is_not_that_of_another_question() -> None:
    helper = Helper("tests.faults.late_helper", "sample", {})
    with pytest.raises(ClusterFailure, match="the process of the sample did not answer first within 0 s"):
        helper.ask("first", within=0.1, late=0.5)
    assert helper.ask("second", within=30, late=0) == "second"
    assert helper.ask("third", late=0) == "third"
    assert helper.close() == 0


def test_one_that_ended_is_named() -> None:
    helper = Helper("tests.faults.late_helper", "sample", {})
    assert helper.ask("first", late=0) == "first"
    helper.close()
    with pytest.raises(ClusterFailure, match=r"the process of the sample (is gone|ended with 0)"):
        helper.ask("second", late=0)

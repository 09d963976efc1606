"""The key `share` of a lane: the format that it needs."""

from dataclasses import replace
from typing import Any

from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.contract.run_directory import lanes_document

KRAFT: dict[str, Any] = {"lane": "a", "kafka_version": "4.4.0", "metadata_mode": "kraft"}


def test_a_lane_with_a_share_group_is_read_as_it_was_written_and_needs_the_third_format() -> None:
    lane = Lane(**KRAFT, client="java 4.2.2", share=Share(acknowledgement="explicit", release=0.2, crashes=1))
    document = lanes_document([Lane(lane="b"), lane])
    assert document["format_version"] == 3
    assert Lane.from_json(document["lanes"][1]) == lane
    assert lane.share is not None
    assert lane.share.described == (
        "3 members, explicit acknowledgement, 20% released, lock 5 s, at most 5 deliveries, read_uncommitted, 1 crash, "
        "from the earliest"
    )
    assert not {*lane.anomalies} <= {*replace(lane, share=None).anomalies}

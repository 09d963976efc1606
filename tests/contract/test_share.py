"""The key `share` of a lane: what is refused, and the format that it needs."""

from dataclasses import replace
from typing import Any

import pytest

from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.contract.run_directory import lanes_document

KRAFT: dict[str, Any] = {"lane": "a", "kafka_version": "4.4.0", "metadata_mode": "kraft"}
ENTRY = {**KRAFT, "client": {"name": "java", "version": "4.2.2"}}


@pytest.mark.parametrize(
    ("entry", "key"),
    [
        ({"share": {"members": 0}}, "share.members"),
        ({"share": {"acknowledgement": "later"}}, "share.acknowledgement"),
        ({"share": {"release": 0.1}}, "share.acknowledgement"),
        ({"share": {"acknowledgement": "explicit", "release": 0.6, "reject": 0.5}}, "share.reject"),
        ({"share": {"delivery_limit": 1}}, "share.delivery_limit"),
        ({"share": {"isolation": "committed"}}, "share.isolation"),
        ({"share": {"start": "now"}}, "share.start"),
        ({"share": {"members": 2, "leaves": 2}}, "share.leaves"),
        ({"share": {"lock": 3}}, "share.lock"),
        ({"share": {}, "kafka_version": "4.1.2"}, "share"),
        ({"share": {}, "kafka_version": "3.9.1", "metadata_mode": "zookeeper"}, "share"),
        ({"share": {}, "group": {}}, "share"),
        ({"share": {}, "client": None}, "client"),
        ({"share": {}, "client": {"name": "java", "version": "4.1.1"}}, "client"),
        ({"share": {}, "client": {"name": "franz-go", "version": "1.18.0"}}, "client"),
    ],
)
def test_what_is_refused_names_its_key(entry: dict[str, Any], key: str) -> None:
    with pytest.raises(LaneError) as raised:
        Lane.from_json({**ENTRY, **entry})
    assert raised.value.key == key


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

"""The conformance kit on real brokers: a client passes, and broken ones are each told what is wrong."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_chaos.harness.clients.fetching import ADAPTERS
from kafka_chaos.harness.clients.kinds import OwnClient
from kafka_chaos.harness.cluster.admin import ClusterAdmin
from kafka_chaos.harness.cluster.cluster import Cluster
from tests.conformance.clients.checks import TRANSACTIONS
from tests.conformance.clients.kits import kit_for, played

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

# The environment of the tests has librdkafka and kafka-python.
HERE = OwnClient((sys.executable, str(ADAPTERS / "client.py"), "kafka-python"))


def test_records_are_written_and_read_by_a_process(cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    names = ("identities and offsets of a producer", "identities that a consumer reads")
    assert played(kit_for(HERE, cluster, admin, tmp_path), cluster, *names) == dict.fromkeys(names, "")


def test_transactions_are_checked_too(cluster: Cluster, admin: ClusterAdmin, tmp_path: Path) -> None:
    assert played(kit_for(HERE, cluster, admin, tmp_path), cluster, TRANSACTIONS) == {TRANSACTIONS: ""}


WRITES, READS = "identities and offsets of a producer", "identities that a consumer reads"
SEND = "identities.encode(seq))\n            library.serve()\n"
BROKEN = {
    "an identity with another lane's checksum": (
        'Identities(begin["lane"], begin["producer_id"]',
        'Identities("other", begin["producer_id"]',
        (WRITES, "carry no identity"),
    ),
    "all records in one partition": ("first + seq % partitions", "first", (WRITES, "is in partition 0: expected 1")),
    "an offset of another record": (
        "offset=[offset for _, offset in done]",
        "offset=[offset + 1 for _, offset in done]",
        (WRITES, "was said to be at offset 1: it is at 0"),
    ),
    "a second outcome": (
        SEND,
        SEND + "            outcomes.acknowledged(order['first_seq'], 0)\n" * 2,
        (WRITES, "two outcomes of one record"),
    ),
    "an outcome without a send": (
        "            for seq in range(order",
        "            outcomes.acknowledged(order['first_seq'], 0)\n            for seq in range(1 + order",
        (WRITES, "is not in the log"),
    ),
    "a record sent again": (
        SEND,
        SEND + "            library._client.send(begin['topic'], identities.encode(0), partition=0)\n",
        (WRITES, "in the log more than once"),
    ),
    "silence": (
        'if done:\n                tell("outcome"',
        'if False:\n                tell("outcome"',
        (WRITES, "200 of 200 records got no outcome"),
    ),
    "a log on standard output": (
        "    begin = json.loads(sys.stdin.readline())",
        "    _OUT.write('INFO starting\\n')\n    begin = json.loads(sys.stdin.readline())",
        (WRITES, "said 'INFO starting', which is no event"),
    ),
    "a flush that waits for nothing": (
        "            library.flush()\n",
        '            tell("flushed")\n            library.flush()\n',
        ("flush", "said that it has flushed while"),
    ),
    "an error that it takes for certain": (
        'outcome="info"',
        'outcome="fail"',
        ("errors that leave the outcome open", "was said to have failed for certain"),
    ),
    "death when told to leave": (
        '            if what == "leave":\n',
        '            if what == "leave":\n                os._exit(3)\n',
        ("leave", "exit code 3"),
    ),
    "no ear for SIGTERM": (
        'lambda *_: orders.put({"order": "leave"})',
        "signal.SIG_IGN",
        ("SIGTERM", "sent SIGTERM, and runs still"),
    ),
    "life without the harness": (
        "    os._exit(130)\n",
        "    time.sleep(600)\n",
        ("end of the harness", "its standard input was closed, and it runs still"),
    ),
    "headers that it does not read": (
        "if key == HEADER",
        "if key == 'id'",
        (READS, "expected (3, 200) as (producer_id, seq)"),
    ),
    "a commit that it only claims": (
        "        library.transaction(what if",
        "        what == 'commit' and sent == 2 or library.transaction(what if",
        (TRANSACTIONS, "consumer did not read record"),
    ),
    "a commit that it claims although it was fenced": (
        "        library.transaction(what if",
        "        what == 'commit' or library.transaction(what if",
        (TRANSACTIONS, "had ended a transaction after another one had begun"),
    ),
    "a consumer that reads what is aborted": (
        '"isolation_level": begin.get("isolation") or "read_uncommitted"',
        '"isolation_level": "read_uncommitted"',
        (TRANSACTIONS, "whose transaction is not committed"),
    ),
    "records that it leaves out": (
        "        for first in range(0, len",
        "        records = records[1:]\n        for first in range(0, len",
        (READS, "expected (3, "),
    ),
}
"""By change of kafka-python's adapter: the old text and the new, and the check with its words."""


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_client_is_told_what_is_wrong(
    what: str, cluster: Cluster, admin: ClusterAdmin, tmp_path: Path
) -> None:
    before, after, (check, problem) = BROKEN[what]
    text = (ADAPTERS / "client.py").read_text()
    assert text.count(before) >= 1
    (tmp_path / "client.py").write_text(text.replace(before, after, 1))
    broken = OwnClient((sys.executable, str(tmp_path / "client.py"), "kafka-python"))
    kit = replace(kit_for(broken, cluster, admin, tmp_path), answered_within=20.0, gone_within=5.0)
    assert problem in played(kit, cluster, check)[check]

"""Rules of client libraries that differ from the KIPs, each with its source.

The model of a lane has the client of KIP-98 and KIP-360. It retries in the order of the records, and has time-outs and
as many requests in flight as the lane says (`lane/exchanges.py`). It has sequence numbers, and renews its epoch
where a batch is refused behind an acknowledged one (`lane/idempotence.py`). The rules here are added in the search for
known defects. A client that is not in `CLIENTS` has none of them: its source has not been read for such rules.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafka_chaos.contract.command.files import package_toml
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import release

LIBRDKAFKA, SARAMA, KAFKAJS = "librdkafka", "sarama", "kafkajs"
KAFKA_PYTHON, AIOKAFKA = "kafka-python", "aiokafka"


@dataclass(frozen=True, slots=True)
class ClientRules:
    """The rules of a client library. By default, each field is off, or as in the KIPs.

    `acknowledges_implicitly`: an acknowledged record also acknowledges earlier records that wait to be sent again.
    `renews_for_all`: once messages time out or sequence numbers are skipped in one partition, the producer renews its
    epoch for all partitions, and sends records in doubt again in the new epoch. `epoch_per_transaction_since`:
    if client and brokers are at least of this release, each transaction has its own producer epoch (KIP-890, part 2).

    `numbers_anew`: each attempt of an idempotent producer takes the sequence number that is next at that moment.
    `repeats_unanswered`: a send() that met a closed connection is repeated for all its partitions, even with acks=0.
    Both only matter with several requests in flight. `leaves_unnumbered`: messages that arrive while older ones are
    sent again have sequence number 0. `returns_late`: if several sets of messages fail together, the second set is
    sent again last. `commits_incomplete`: a transaction is committed even if some of its records were given up.

    `renews_after_error`: if a batch fails with an error past its delivery time-out, the producer renews its epoch at
    once, and sends what is in flight to that partition again in the new epoch. `checks_epochs_since`: from this release
    on, consumers compare their position with the epochs of a new leader (KIP-320); None: no release does.
    """

    acknowledges_implicitly: bool = False
    renews_for_all: bool = False
    epoch_per_transaction_since: tuple[int, int] | None = None
    numbers_anew: bool = False
    leaves_unnumbered: bool = False
    repeats_unanswered: bool = False
    returns_late: bool = False
    commits_incomplete: bool = False
    renews_after_error: bool = False
    checks_epochs_since: tuple[int, int] | None = (0, 0)


def _rules(given: Mapping[str, Any]) -> ClientRules:
    """`given`: as in rules.toml, where a release is a list, or "never"."""
    releases = {name: tuple(value) if value != "never" else None for name, value in given.items() if value is not True}
    return ClientRules(**{**given, **releases})


CLIENTS = {name: _rules(given) for name, given in package_toml(__package__, "rules.toml").items()}
"""The rules of each client library whose source has been read for them."""


def rules_of_client(lane: Lane) -> ClientRules:
    """The rules of a lane's client; if the lane names none, librdkafka's."""
    return CLIENTS.get((lane.client or LIBRDKAFKA).partition(" ")[0], ClientRules())


def _release_of_client(lane: Lane) -> tuple[int, int] | None:
    """The release of a lane's client, such as (3, 9), if the lane names it."""
    numbers = re.search(r" (\d+)\.(\d+)", lane.client or "")
    return None if numbers is None else (int(numbers[1]), int(numbers[2]))


def checks_epochs(lane: Lane) -> bool:
    """Whether a lane's consumers notice that the log below their position was replaced.

    A client whose release is not known counts as the newest one.
    """
    since, present = rules_of_client(lane).checks_epochs_since, _release_of_client(lane)
    return since is not None and (present is None or present >= since)


def has_epoch_per_transaction(lane: Lane) -> bool:
    """Whether a lane's client and brokers are known to give each transaction a producer epoch of its own."""
    since, present = rules_of_client(lane).epoch_per_transaction_since, _release_of_client(lane)
    if since is None or present is None or lane.kafka_version is None:
        return False
    return min(present, release(lane.kafka_version)) >= since

"""The rules that the members of a group and its coordinator follow, by protocol and assignor.

| rules | who follows them | at a rebalance | source |
| --- | --- | --- | --- |
| `eager` | `range`, `roundrobin` | all members revoke everything, then all get the next generation | KIP-62 |
| `cooperative` | `cooperative-sticky` | members keep what they have; a partition that is to move is revoked in one \
generation and gets its new owner in the next | KIP-429 |
| `consumer` | protocol `consumer` | members follow the coordinator one by one, each in an epoch of its own | KIP-848 |

Which member gets a partition is left open, so that each set of rules stands for every assignor of its kind.
"""

from dataclasses import dataclass, replace

from kafka_chaos.contract.lane.groups import CONSUMER, COOPERATIVE, Group
from kafka_chaos.contract.lane.metadata import release


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of a protocol. Tests switch off single rules, to see that the model notices.

    `revokes_all`: a member that joins again first gives up what it owns. `awaits_members`: a generation begins once all
    members have joined. `fences`: the commit of a member that is not in the group, or in another generation, is
    refused; `fences_transactions`: so is its offset in a transaction (KIP-447). `revokes_first`: a partition moves on
    only after its owner has given it up. `waits_for_stable`: a member that asks for a committed offset waits until
    open transactions with offsets have ended (KIP-447). `replays`: a new coordinator first reads its predecessor's log.
    """

    name: str
    revokes_all: bool
    awaits_members: bool
    fences: bool = True
    fences_transactions: bool = True
    revokes_first: bool = True
    waits_for_stable: bool = True
    replays: bool = True


EAGER_RULES = Rules("eager", revokes_all=True, awaits_members=True)
COOPERATIVE_RULES = Rules("cooperative", revokes_all=False, awaits_members=True)
CONSUMER_RULES = Rules("consumer", revokes_all=False, awaits_members=False)
PROTOCOL_RULES = (EAGER_RULES, COOPERATIVE_RULES, CONSUMER_RULES)


def rules_of_group(group: Group, version: str) -> Rules:
    """The rules that a group's members and its coordinator follow on brokers of this version; KIP-447 came with 2.5."""
    if group.protocol == CONSUMER:
        return CONSUMER_RULES
    rules = COOPERATIVE_RULES if group.assignor == COOPERATIVE else EAGER_RULES
    if release(version) < (2, 5):
        return replace(rules, name=f"{rules.name} before KIP-447", fences_transactions=False, waits_for_stable=False)
    return rules

"""A consumer group in words: who is in it, who has the partition, and what each member did."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from kafka_chaos.conformance.scenario.record import StepRecord
from kafka_chaos.reference_model.lockstep.observation.clients import NOBODY, GroupObservation, MemberObservation

_UNKNOWN = "–"


def group_lines(step: StepRecord) -> Iterator[str]:
    """The group after a step, and a line for each member."""
    group = step.observation.group
    if group is None:
        return
    members, owner, committed = tell_group(group)
    yield f"Group: members {members} · has the partition {owner} · committed {committed}"
    for number, member in group.each.items():
        yield f"member {number}: {tell_member(member, group)}"


def tell_group(group: GroupObservation) -> tuple[str, str, str]:
    """The members, the owner of each partition, and the committed offsets."""
    owners = group.owners and [_UNKNOWN if owner == NOBODY else str(owner) for owner in group.owners]
    return _values(group.members), _values(owners), _values(group.committed)


def _values(values: Sequence[object] | None) -> str:
    return _UNKNOWN if values is None else " ".join(map(str, values)) or "nobody"


def tell_member(member: MemberObservation, group: GroupObservation) -> str:
    """A member's generation, and what it did: "given 0, processed 0, committed 1"."""
    several = len(group.committed or ()) > 1
    generation = [f"generation {member.generation or 'none'}"] if member.generation is not None else []
    done = [
        f"{what} {' '.join(f'{partition}:{offset}' if several else str(offset) for _, partition, offset in deeds)}"
        for what, deeds in groupby(member.did, lambda deed: deed[0])
    ]
    return "; ".join([*generation, ", ".join(done)] if done else generation)

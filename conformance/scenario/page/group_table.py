"""A consumer group over the steps of an act: a row per step that changed it, and lines for the terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from kafka_chaos.conformance.scenario.record import ActRecord, StepRecord
from kafka_chaos.reference_model.lockstep.observation.clients import NOBODY, GroupObservation, MemberObservation

HEADINGS = ("step", "in the group", "has the partition", "committed")
_UNKNOWN = "–"


def group_headings(act: ActRecord) -> tuple[str, ...]:
    """The headings of `group_rows`: a column per member comes last."""
    return (*HEADINGS, *(f"member {number}" for number in _everyone(act)))


def group_rows(act: ActRecord) -> Iterator[tuple[str, ...]]:
    """A row per step that changed what is seen of the group: of each member what is new. None if there is no group."""
    everyone = _everyone(act)
    before: GroupObservation | None = None
    shown: dict[int, MemberObservation] = {}
    for step in act.steps:
        group = step.observation.group
        if group is not None and group != before:
            cells = []
            for number in everyone:
                known, now = shown.get(number, MemberObservation()), group.each.get(number, MemberObservation())
                generation = now.generation if now.generation != known.generation else None
                cells.append(_member(replace(now, generation=generation, did=now.did[len(known.did) :]), group))
                shown[number] = replace(now, generation=now.generation or known.generation)
            yield (f"{step.number}. {step.sentence}", *_of_group(group), *cells)
        before = group


def group_lines(step: StepRecord) -> Iterator[str]:
    """The group after a step, and a line for each member."""
    group = step.observation.group
    if group is None:
        return
    members, owner, committed = _of_group(group)
    yield f"Group: members {members} · has the partition {owner} · committed {committed}"
    for number, member in group.each.items():
        yield f"member {number}: {_member(member, group)}"


def _everyone(act: ActRecord) -> list[int]:
    return sorted({number for step in act.steps if step.observation.group for number in step.observation.group.each})


def _of_group(group: GroupObservation) -> tuple[str, str, str]:
    owners = group.owners and [_UNKNOWN if owner == NOBODY else str(owner) for owner in group.owners]
    return _values(group.members), _values(owners), _values(group.committed)


def _values(values: Sequence[object] | None) -> str:
    return _UNKNOWN if values is None else " ".join(map(str, values)) or "nobody"


def _member(member: MemberObservation, group: GroupObservation) -> str:
    """A member's generation, and what it did: "given 0, processed 0, committed 1"."""
    several = len(group.committed or ()) > 1
    generation = [f"generation {member.generation or 'none'}"] if member.generation is not None else []
    done = [
        f"{what} {' '.join(f'{partition}:{offset}' if several else str(offset) for _, partition, offset in deeds)}"
        for what, deeds in groupby(member.did, lambda deed: deed[0])
    ]
    return "; ".join([*generation, ", ".join(done)] if done else generation)

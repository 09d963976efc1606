"""Words for the observations of an act: what each step changed, what groups and their members did, and differences."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from kafka_chaos.conformance.scenario.record import TRANSACTIONS_ACT, ActRecord, StepRecord
from kafka_chaos.reference_model.lockstep.observation import (
    GIVEN,
    NO_EPOCH,
    SUBJECTS,
    Difference,
    GroupObservation,
    MemberObservation,
    Observation,
    PartitionObservation,
    ReplicaObservation,
    ShareDeed,
    TransactionsObservation,
)
from kafka_chaos.reference_model.lockstep.state import LEADER, NOBODY

_MAX_CELLS = 9  # the number of records of a log that are told
_UNKNOWN = "–"
Entry = tuple[int, str, int]
"""A record of a log: offset, name, leader epoch."""


def tell_change(act: ActRecord, before: Observation | None, now: Observation) -> list[str]:
    """A sentence for each replica or partition that changed, and one for the metadata; none if nothing changed."""
    earlier = {} if before is None else rows_of(before)
    words_before = {number: _tell_row(before, row) for number, row in earlier.items() if before is not None}
    metadata = _tell_partition(now)
    changes = []
    for number, row in rows_of(now).items():
        if words_before.get(number) != _tell_row(now, row):
            log_before = earlier[number].log or () if number in earlier else ()
            gone = [entry for entry in log_before if entry not in (row.log or ())]
            name = act.replica_name(number)
            changes.append(f"{name[0].upper()}{name[1:]}{_tell_row(now, row, gone)}.")
    if not changes and before is not None and metadata == _tell_partition(before):
        return []
    return [*changes, f"{'Transactions' if act.kind == TRANSACTIONS_ACT else 'Partition'}: {metadata}."]


def rows_of(observation: Observation) -> Mapping[int, Any]:
    """The observed replicas by broker, or partitions with transactions by number."""
    return observation.replicas if observation.transactions is None else observation.transactions.partitions


def tell_difference(act: ActRecord, difference: Difference) -> str:
    """A sentence that names the replica and the field, the value observed, and the values that the model allows."""
    subject = SUBJECTS.get(difference.place) or act.replica_name(difference.place)  # A place is a broker, as a rule.
    name = difference.field.replace("_", " ")
    bare_name = difference.field.rpartition(", ")[2]  # A field may begin with its owner, as in `member 1, did`.
    seen = _value_text(bare_name, difference.observed)
    allowed = " or ".join(_value_text(bare_name, value) for value in difference.allowed)
    return f"{subject}, {name}: Kafka has {seen}, the model allows {allowed}"


def _value_text(name: str, value: Any) -> str:
    """The value of a field as people write it."""
    if value is None:
        return _UNKNOWN
    if name == "leader" and value == NOBODY:
        return "none"
    if name == "acknowledged":
        return " ".join(f"{record}@{'?' if offset is None else offset}" for record, offset in value) or "nothing"
    if name == "epochs":
        return " ".join(f"{epoch}@{start}" for epoch, start in value) or "empty"
    if name == "log":
        return _log_text(value)
    if isinstance(value, tuple | list):
        return " ".join(map(str, value)) or "empty"
    return str(value)


def _log_text(log: Sequence[Entry]) -> str:
    """Each record as name·leader epoch; after a gap its offset precedes it (7:a·0). A long log loses its middle."""
    expected_offsets = [0, *(offset + 1 for offset, _, _ in log)]
    cells = []
    for (offset, record, epoch), expected_offset in zip(log, expected_offsets, strict=False):
        name = _printable(record)[:16] + ("" if epoch == NO_EPOCH else f"·{epoch}")
        cells.append(name if offset == expected_offset else f"{offset}:{name}")
    if len(cells) > _MAX_CELLS:
        cells[2 : 3 - _MAX_CELLS] = [f"…{len(log) + 1 - _MAX_CELLS}…"]  # Two cells stay before the count.
    return " ".join(cells) or "empty"


def _printable(record: str) -> str:
    """A record's name with � for each letter that can't be printed; ∅ for an empty name."""
    return "".join(letter if letter.isprintable() else "�" for letter in record) or "∅"


def _tell_transactions(observation: TransactionsObservation) -> Iterator[str]:
    """The words for each transactional id, each producer, and the group's offset."""
    for name, transaction in observation.transactions.items():
        partitions = f" in {' '.join(map(str, transaction.partitions))}" if transaction.partitions else ""
        yield f"{name} {transaction.state}{partitions}, epoch {transaction.epoch}"
    for name, producer in observation.producers.items():
        yield f"{name} has epoch {producer.epoch}, {producer.reply}"
    if observation.offsets is not None:
        committed = "none" if observation.offsets.committed is None else observation.offsets.committed
        yield f"group's offset {committed}"
        if observation.offsets.pending:
            yield "another one is pending"


def _tell_row(
    observation: Observation, row: ReplicaObservation | PartitionObservation, gone: Sequence[Entry] = ()
) -> str:
    """The words for a replica or a partition; `gone`: the entries that it has lost since the previous step."""
    names = _names(row.log or ()) or "empty"
    if isinstance(row, PartitionObservation):
        readable = " ".join(row.read_committed) or "nothing"
        return f": {names}, last stable offset {row.last_stable_offset}, read_committed gives {readable}"
    # A running broker may name another leader to clients than the metadata has.
    agrees = row.role is None or row.leader is None or observation.leader in (None, row.leader)
    belief = "" if agrees else " sees no leader" if row.leader == NOBODY else f" sees leader {row.leader}"
    state = {LEADER: " leads", None: " does not run"}.get(row.role, "")
    drops = f" drops {_names(gone)}" if gone else ""
    offset = row.checkpointed_high_watermark if row.role is None else row.high_watermark
    watermark = "" if offset is None else f", high watermark {offset}"
    return f"{' and'.join(part for part in (state, belief, drops) if part)}: {names}{watermark}"


def _names(log: Sequence[Entry]) -> str:
    names = [_printable(record) + ("" if epoch == NO_EPOCH else f" (epoch {epoch})") for _, record, epoch in log]
    return " ".join(names if len(names) <= 6 else [*names[:2], f"… {len(names) - 4} more …", *names[-2:]])


def _tell_partition(observation: Observation) -> str:
    if observation.transactions is not None:
        return "; ".join(_tell_transactions(observation.transactions)) or "none"
    if observation.leader is None:
        return "no partition in the metadata"
    leader = "no leader" if observation.leader == NOBODY else f"leader {observation.leader}"
    epoch = "" if observation.leader_epoch is None else f", epoch {observation.leader_epoch}"
    isr = "" if observation.isr is None else f"; ISR {' '.join(map(str, observation.isr)) or 'empty'}"
    return f"{leader}{epoch}{isr}"


def group_lines(step: StepRecord) -> Iterator[str]:
    """A line about the group or the share group after a step, and a line for each member."""
    group, shares = step.observation.group, step.observation.shares
    if shares is not None:
        yield f"Share group: start offset {shares.start}"
        for number, did in shares.did.items():
            yield f"member {number}: {tell_deliveries(did)}"
    if group is None:
        return
    members, owners, committed = tell_group(group)
    yield f"Group: members {members} · owner of each partition: {owners} · committed {committed}"
    for number, member in group.by_member.items():
        yield f"member {number}: {tell_member(member, group)}"


def tell_group(group: GroupObservation) -> tuple[str, str, str]:
    """Words for the members, for the owner of each partition, and for the committed offsets."""
    owners = group.owners and [_UNKNOWN if owner == NOBODY else str(owner) for owner in group.owners]
    return _values(group.members), _values(owners), _values(group.committed)


def _values(values: Sequence[object] | None) -> str:
    return _UNKNOWN if values is None else " ".join(map(str, values)) or "nobody"


def tell_member(member: MemberObservation, group: GroupObservation) -> str:
    """Words for a member's generation and its deeds: "generation 1; given 0, processed 0, committed 1"."""
    several = len(group.committed or ()) > 1
    generation = [f"generation {member.generation or 'none'}"] if member.generation is not None else []
    done = [
        f"{kind} {' '.join(f'{partition}:{offset}' if several else str(offset) for _, partition, offset in deeds)}"
        for kind, deeds in groupby(member.did, lambda deed: deed[0])
    ]
    return "; ".join([*generation, ", ".join(done)] if done else generation)


def tell_deliveries(did: Sequence[ShareDeed]) -> str:
    """What a member of a share group did: "given 0 (delivery 1), accept 0: NONE"."""
    return ", ".join(
        f"given {offset} (delivery {count_or_answer})" if kind == GIVEN else f"{kind} {offset}: {count_or_answer}"
        for kind, offset, count_or_answer in did
    )

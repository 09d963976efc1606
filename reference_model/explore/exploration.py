"""All interleavings of the replication core in a stated scope, and the shortest way to each broken invariant.

`holds` is True only after an exhausted search; without a breach and without exhaustion it is None.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.reference_model.explore.core import Core, CoreAction, CoreScope
from kafka_chaos.reference_model.explore.invariants import INVARIANTS, STEP_INVARIANTS
from kafka_chaos.reference_model.explore.state import NO_LEADER, CoreState
from kafka_chaos.reference_model.lane.story import counted_records
from kafka_chaos.reference_model.protocol import Protocol
from kafka_chaos.reference_model.protocol.entries import content_of, leader_epoch_of
from kafka_chaos.reference_model.search import Budget, breadth_first

MAX_STATES = 10_000_000

SENTENCES: Mapping[str, str] = toml_of("kafka_chaos.reference_model", "sentences.toml")["explore"]
"""A sentence per action."""


@dataclass(frozen=True, slots=True)
class Exploration:
    """The result of an exploration; `invariants` maps each name to (holds, trace of the shortest breach).

    `seconds` is the time on the clock, `cpu_seconds` the processor's, which states per second refer to.
    """

    protocol: str
    scope: CoreScope
    states: int
    transitions: int
    depth: int
    complete: bool
    seconds: float
    cpu_seconds: float
    invariants: Mapping[str, tuple[bool | None, tuple[str, ...]]]

    def to_json(self) -> dict[str, Any]:
        """The form of `explore --json`."""
        return {
            "protocol": self.protocol,
            "states": self.states,
            "complete": self.complete,
            "seconds": round(self.seconds, 3),
            "states_per_second": round(self.states / self.cpu_seconds) if self.cpu_seconds else None,
            "transitions": self.transitions,
            "depth": self.depth,
            "scope": {**asdict(self.scope), "faults": list(self.scope.faults)},
            "invariants": {
                name: {"holds": holds, "trace": list(trace)} for name, (holds, trace) in self.invariants.items()
            },
        }


def explore(
    protocol: Protocol,
    scope: CoreScope,
    *,
    budget: Budget | None = None,
    until: frozenset[str] = frozenset(),
    core: Core | None = None,
) -> Exploration:
    """Explore a protocol in a scope.

    `until` names invariants whose breach ends the search early (it is then not complete); `core` replaces the
    model itself, for a mutation of it.
    """
    core = Core(protocol, scope) if core is None else core
    breaches: dict[str, tuple[CoreState, ...]] = {}
    open_invariants = dict(INVARIANTS)
    open_steps = dict(STEP_INVARIANTS)

    def visit(state: CoreState) -> bool:
        for name in [name for name, holds in open_invariants.items() if not holds(core, state)]:
            breaches[name] = (state,)
            del open_invariants[name]
        return bool(until) and not until & open_invariants.keys()

    def successors(state: CoreState) -> list[CoreState]:
        reached = [after for _, after in core.steps(state)]
        for name, holds in list(open_steps.items()):
            for after in reached:
                if not holds(core, state, after):
                    breaches[name] = (state, after)
                    del open_steps[name]
                    break
        return reached

    search = breadth_first(core.initial(), successors, visit, budget or Budget(MAX_STATES))
    held = True if search.complete else None
    found: dict[str, tuple[bool | None, tuple[str, ...]]] = {}
    for name in (*INVARIANTS, *STEP_INVARIANTS):
        broken = breaches.get(name)
        trace = tell(core, [*search.path(broken[0]), *broken[1:]]) if broken else ()
        found[name] = (False if broken else held, trace)
    return Exploration(
        protocol=protocol.name,
        scope=scope,
        states=len(search.parents),
        transitions=search.transitions,
        depth=search.depth,
        complete=search.complete,
        seconds=search.seconds,
        cpu_seconds=search.cpu_seconds,
        invariants=found,
    )


def tell(core: Core, path: list[CoreState]) -> tuple[str, ...]:
    """A path as a story, with the state it ends in."""
    sentences = []
    for before, after in pairwise(path):
        action = next(action for action, reached in core.steps(before) if reached == after)
        sentences.append(_sentence(core, action, before, after))
    return (*sentences, _ending(core, path[-1]))


def _sentence(core: Core, action: CoreAction, before: CoreState, after: CoreState) -> str:
    old, new = core.locals[before[action.broker]], core.locals[after[action.broker]]
    cut = len(old.log) - len(new.log)
    dropped = ", ".join(f"m{content_of(entry)}" for entry in old.log[len(new.log) :])
    return SENTENCES[action.name].format(
        broker=action.broker + 1,
        other=action.other + 1,
        record=action.other,
        detail=action.detail,
        leader="nobody" if action.other == NO_LEADER else f"broker {action.other + 1}",
        truncation=f" and truncates {dropped}" if cut > 0 else "",
        watermark=new.high_watermark,
        left=counted_records(len(new.log)),
    )


def _ending(core: Core, state: CoreState) -> str:
    controller = core.controllers[state[-2]]
    isr = ", ".join(str(broker + 1) for broker in core.brokers if controller.isr >> broker & 1)
    logs = []
    for broker in core.brokers:
        local = core.locals[state[broker]]
        log = " ".join(f"m{content_of(e)}@{leader_epoch_of(e)}" for e in local.log) or "nothing"
        role = f", leads in epoch {local.leader_epoch}" if local.leader == broker else ""
        logs.append(f"broker {broker + 1} holds {log} (high watermark {local.high_watermark}{role})")
    return f"Now the ISR is {{{isr}}}; {'; '.join(logs)}."

"""The prediction: the anomalies that a lane may show, must show and can never show, before anything is broken.

A status comes from an exhausted search of the lane's state space (`lane/steps.py`) or of a simpler one that bounds it
(`lane/bounds.py`), or from an axiom (`protocol/axioms.py`), never from a table. A search that ends early raises
`PredictionNotExhausted`, which has the anomalies found by then.

If the lane's producers use transactions, the prediction also has their anomalies (`predict/transactional.py`), and if a
consumer group or a share group reads the lane, or a loop writes it, those of groups (`predict/grouped.py`).

Scope: one partition; as many records and attempts of one producer, plain or idempotent, as `Scope` says; consumers
that read everything they are shown. `lane/exchanges.py` names what is left out.
"""

from collections import Counter
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from kafka_chaos.contract.anomalies import Anomaly, Status, Trait, with_trait
from kafka_chaos.contract.command.errors import LaneError
from kafka_chaos.contract.lane.fault_kinds import faults_of_steps
from kafka_chaos.contract.lane.groups import GroupAnomaly
from kafka_chaos.contract.lane.lanes import (
    COMPACT,
    CONSUMER_OFFSETS,
    INTERNAL_REPLICAS,
    SHARE_STATE,
    TRANSACTION_STATE,
    InternalTopic,
    Lane,
)
from kafka_chaos.contract.lane.metadata import release
from kafka_chaos.contract.lane.share import Share
from kafka_chaos.contract.lane.transactions import Transactional
from kafka_chaos.reference_model.groups.examine import GROUPS, group_scope
from kafka_chaos.reference_model.groups.state import Setup
from kafka_chaos.reference_model.lane.anomalies import CHECKS, Form, ending, is_resolved
from kafka_chaos.reference_model.lane.bounds import impossible
from kafka_chaos.reference_model.lane.lockstep_phase import Lockstep, LockstepStep, usual_scope
from kafka_chaos.reference_model.lane.state import LaneState, Scope, canonical, initial_state, split_abilities
from kafka_chaos.reference_model.lane.steps import steps
from kafka_chaos.reference_model.lane.story import tell
from kafka_chaos.reference_model.machine import Findings, Story, shown
from kafka_chaos.reference_model.predict.defects import (
    beyond_search,
    defect_traces,
    plain_lane,
    traces_after_truncated_read,
)
from kafka_chaos.reference_model.predict.grouped import answers_of_groups, answers_of_share, questions_of
from kafka_chaos.reference_model.predict.result import (
    AnomalyPrediction,
    Prediction,
    PredictionNotExhausted,
    Unfinished,
    answers_from,
)
from kafka_chaos.reference_model.predict.transactional import answers_to, question_of, with_notes
from kafka_chaos.reference_model.protocol.axioms import AXIOMS
from kafka_chaos.reference_model.protocol.known_defects import MODELLED_DEFECTS
from kafka_chaos.reference_model.protocol.rules import as_obeyed, rules_of
from kafka_chaos.reference_model.search import Budget, ScopeNotExhausted, breadth_first, fewest_faults_first
from kafka_chaos.reference_model.transactions.examine import TRANSACTIONS, transaction_scope

MAX_STATES = 5_000_000
"""The states that all searches for one prediction may reach together, unless the caller says otherwise."""
SHARE_STATE_MIN_ISR = 2
"""`share.coordinator.state.topic.min.isr` by default."""
FEW_FAULTS = 3
"""With more faults than this, one search with all of them may take many minutes."""


def predict(
    lane: Lane,
    *,
    lockstep: Sequence[LockstepStep] | None = None,
    budget: Budget | None = None,
    scope: Scope | None = None,
) -> Prediction:
    """The status of every anomaly in a lane that lives through its faults, or through a lock-step phase.

    Without a lock-step phase a status is `forbidden` or `permitted`. With one, an anomaly is `required` if every run
    through the phase ends with it. An anomaly that only a consumer's read can show is never required, since nothing
    makes a consumer read in time. Raises `LaneError` for a lock-step phase on a lane that also lists faults,
    `PredictionNotExhausted` if the budget was too small, and `ScopeNotExhausted` if no run gets through the phase.
    """
    if lane.assume:
        without_assumptions = predict(replace(lane, assume=()), lockstep=lockstep, budget=budget, scope=scope)
        return without_assumptions.assuming(lane.unjudged)
    if lockstep is not None and lane.faults:
        raise LaneError("faults", list(lane.faults), "no faults beside a lock-step phase")
    phase = None if lockstep is None else tuple(lockstep)
    builder = _Builder(as_obeyed(lane), phase, budget or Budget(MAX_STATES), scope or usual_scope(lane, phase))
    prediction = builder.with_faults() if phase is None else builder.in_lockstep(phase)
    if lane.transactional is not None:
        prediction = builder.with_transactions(prediction, lane.transactional)
    if lane.group_anomalies:
        prediction = builder.with_groups(prediction)
    return prediction if lane.share is None else builder.with_share(prediction, lane.share)


def still_shown(forbidden: Set[Anomaly], lanes: Sequence[Lane], scope: Scope, budget: Budget) -> frozenset[Anomaly]:
    """The `forbidden` anomalies that one of the lanes nevertheless shows in this scope.

    The scope is usually larger than the one in which the lanes' predictions forbid these anomalies. The larger scope
    shows all that the smaller one shows, because a record need not be sent, nor an attempt made. So only forbidden
    anomalies are searched for. The lanes differ in their faults alone, and have equally many: they share one search,
    since their states are often equal after a fault. Raises `PredictionNotExhausted` if the budget was too small.
    """
    obeyed = [as_obeyed(lane) for lane in lanes]
    findings = _search(obeyed, forbidden & CHECKS.keys(), scope, budget)
    _Builder(obeyed[0], None, budget, scope).note(findings)  # raises if the search ended early
    return frozenset(forbidden & findings.stories.keys())


@dataclass
class _Builder:
    """Builds one prediction: it has the stories found so far, and the budget that all searches share."""

    lane: Lane
    lockstep: Lockstep | None
    budget: Budget
    scope: Scope
    stories: dict[Any, Story] = field(default_factory=dict)

    @property
    def lane_with_faults(self) -> Lane:
        """The lane; for a lock-step phase, with the faults of its steps. They may strike at any moment, since what
        internal topics and coordinators do is in no fixed order with the steps."""
        return self.lane if self.lockstep is None else replace(self.lane, faults=faults_of_steps(self.lockstep))

    def note(self, findings: Findings[Any]) -> None:
        """Add the stories of a search; raises `PredictionNotExhausted`, with all stories, if the search ended early."""
        self.stories = {**findings.stories, **self.stories}
        if not findings.complete:
            unfinished = Unfinished(
                self.stories, self.lane.anomalies, self.budget.states, self.budget.reason, self.bounds()
            )
            raise PredictionNotExhausted(self.lane, unfinished)

    def bounds(self) -> dict[str, Any]:
        """The scope of the search as in `predict --json`, and the rules of the cluster that the model lacks."""
        limits = rules_of(self.lane).limits
        return {
            "brokers": self.lane.replication_factor,
            "records": self.scope.records,
            "attempts": list(self.scope.attempts_of(self.lane)),
            "faults": list(self.lane.faults),
            "known_defects": [defect.id for defect in MODELLED_DEFECTS.values() if defect.concerns(self.lane)],
            "lockstep": None if self.lockstep is None else [str(step) for step in self.lockstep],
            **({"limits": list(limits)} if limits else {}),
            **({"kept_isr": True} if self.scope.kept_isr else {}),
        }

    def with_faults(self) -> Prediction:
        """The prediction where each fault of the lane may strike at any moment, or not at all.

        Many faults make a long search, so a few faults of one kind are searched first. No fault has to strike, so
        the lane shows all that it would show with fewer faults.
        """
        lanes = [self.lane]
        if len(self.lane.faults) > FEW_FAULTS:
            kinds = Counter(self.lane.faults).items()
            fewer = [(kind,) * number for number in range(1, FEW_FAULTS) for kind, count in kinds if count >= number]
            lanes = [*(replace(self.lane, faults=faults) for faults in fewer), self.lane]
        for lane in lanes:
            self.note(_search([lane], CHECKS.keys() - self.stories.keys(), self.scope, self.budget))
        return self._prediction()

    def with_transactions(self, plain: Prediction, transactional: Transactional) -> Prediction:
        """The prediction with what the lane's transactions may show."""
        lane = self.lane
        question = question_of(
            lane,
            transactional,
            brokers_fail=bool(self.lane_with_faults.faults),
            data_may_be_lost=plain.status(Anomaly.LOST_WRITE) is not Status.FORBIDDEN,
            states_may_be_lost=self._may_lose(TRANSACTION_STATE),
        )
        findings = TRANSACTIONS.examine(question, self.budget)
        self.note(findings)
        bounds = {**plain.bounds, "transactions": transaction_scope(question)}
        answers = {**with_notes(plain.anomalies), **answers_to(question, findings, lane)}
        return Prediction(answers, plain.states + findings.states, True, bounds)

    def with_groups(self, plain: Prediction) -> Prediction:
        """The prediction with what the lane's group and its loop may show."""
        lane = self.lane
        may_fail, may_lose = bool(self.lane_with_faults.faults), self._may_lose(CONSUMER_OFFSETS)
        asked: dict[Setup, Findings[GroupAnomaly]] = {}
        for question in questions_of(lane, plain, brokers_fail=may_fail, offsets_may_be_lost=may_lose):
            asked[question] = GROUPS.examine(question, self.budget)
            self.note(asked[question])
        return replace(
            plain,
            states=plain.states + sum(findings.states for findings in asked.values()),
            bounds={**plain.bounds, "groups": [group_scope(question) for question in asked]},
            anomalies={**plain.anomalies, **answers_of_groups(lane, asked, plain)},
        )

    def with_share(self, plain: Prediction, share: Share) -> Prediction:
        """The prediction with what the lane's share group may show."""
        answers = answers_of_share(self.lane_with_faults, share, plain, state_may_be_lost=self._may_lose(SHARE_STATE))
        return replace(plain, anomalies={**plain.anomalies, **answers})

    def _may_lose(self, topic: str) -> bool:
        """Whether an acknowledged record of an internal topic may be lost: one record is enough to tell."""
        topic_lane = internal_topics(self.lane_with_faults)[topic]
        findings = _search([topic_lane], {Anomaly.LOST_WRITE}, Scope(records=1, attempts=1), self.budget)
        # Only whether the search was complete counts here: its story is not one of the lane.
        self.note(Findings(complete=findings.complete))
        return Anomaly.LOST_WRITE in findings.stories

    def in_lockstep(self, lockstep: Lockstep) -> Prediction:
        """The prediction for a lock-step phase.

        An anomaly is permitted if some run through the phase ends with it, and required if every run does.
        """
        lane = self.lane
        nearest: dict[Anomaly, LaneState] = {}
        unavoidable: frozenset[Anomaly] | None = None

        def visit(state: LaneState) -> bool:
            nonlocal unavoidable
            if state.lockstep_steps_done == len(lockstep):
                for anomaly in shown(ending(state), CHECKS):
                    nearest.setdefault(anomaly, state)
                if is_resolved(state):
                    without_reads = shown(ending(state._replace(reads=0)), CHECKS)
                    unavoidable = without_reads if unavoidable is None else unavoidable & without_reads
            return False

        next_steps = partial(steps, lane=lane, lockstep=lockstep)
        search = breadth_first(
            canonical(initial_state(lane, self.scope), lane),
            lambda state: [canonical(after, lane) for _, after in next_steps(state)],
            visit,
            self.budget,
        )
        stories = {anomaly: tell(search.path(state), lane, next_steps) for anomaly, state in nearest.items()}
        self.note(Findings(stories, complete=search.complete))
        if unavoidable is None:
            raise ScopeNotExhausted(f"no run gets through the lock-step phase {', '.join(lockstep)}")
        # Compaction may hide these anomalies, if a later record has the same key.
        hidden = with_trait(Anomaly, Trait.NOT_AFTER_CLEANUP) if lane.cleanup_policy == COMPACT else ()
        return self._prediction((unavoidable & nearest.keys()) - {*hidden})

    def _prediction(self, required: Set[Anomaly] = frozenset()) -> Prediction:
        """The prediction from the stories of an exhausted search."""
        states = self.budget.states
        why_forbidden = f"scope exhausted: none of {states} states shows it"
        anomalies = answers_from(Anomaly, self.stories, why_forbidden, defect_traces(self.lane))
        for anomaly in required:
            anomalies[anomaly] = AnomalyPrediction(Status.REQUIRED, self.stories[anomaly])
        truncated_read = self.stories.get(Anomaly.TRUNCATED_READ)
        for anomaly, axiom in AXIOMS.items():
            broken = axiom.why_broken(self.lane.faults)
            status = Status.PERMITTED if broken else Status.FORBIDDEN
            defects = traces_after_truncated_read(self.lane, truncated_read) if anomaly is Anomaly.UNSEEN else ()
            anomalies[anomaly] = AnomalyPrediction(status, broken or axiom.sentences(), defects)
        for anomaly, story in beyond_search(self.lane_with_faults, truncated_read):
            if anomalies[anomaly].status is Status.FORBIDDEN:
                anomalies[anomaly] = AnomalyPrediction(Status.PERMITTED, story)
        return Prediction(anomalies, states, True, self.bounds())


def _search(lanes: Sequence[Lane], anomalies: Set[Anomaly], scope: Scope, budget: Budget) -> Findings[Anomaly]:
    """Search until each of these anomalies has a story, or none of the lanes can show it, if the budget is enough.

    The lanes differ in their faults alone. The findings may have stories to other anomalies, too.
    """
    budget.label = "outer bounds"
    missing = set(anomalies - impossible(anomalies, lanes, scope, budget))
    if budget.reason or not missing:
        return Findings(complete=not budget.reason)
    lane = lanes[0]
    next_steps = partial(steps, lane=lane, lockstep=None, kept_isr=scope.kept_isr)
    nearest: dict[Anomaly, LaneState] = {}
    # Once an anomaly is found, states need no longer differ in facts that only its search needs.
    forms = [Form.needed_for(missing, lane)]

    def visit(state: LaneState) -> bool:
        budget.label = f"{len(lane.faults) - len(state.faults)} of {len(lane.faults)} faults"
        new = shown(ending(state), CHECKS, CHECKS.keys() - nearest.keys())
        nearest.update(dict.fromkeys(new, state))
        if new & missing:
            missing.difference_update(new)
            forms.append(Form.needed_for(missing, lane))
        return not missing

    search = fewest_faults_first(
        [canonical(initial_state(lane, scope), lane) for lane in lanes],
        lambda state: [forms[-1].reduce(canonical(after, lane)) for _, after in next_steps(state)],
        visit,
        lambda state: len(lane.faults) - len(state.faults),
        lambda state: split_abilities(state, lane),
        budget,
    )
    stories = {anomaly: tell(search.path(state), lane, next_steps, forms) for anomaly, state in nearest.items()}
    return Findings(stories, complete=search.complete or not missing)


def internal_topic(lane: Lane, name: str) -> Lane:
    """An internal topic as a lane with the lane's faults, to find out what its coordinator's log may lose.

    Settings that the lane does not give are the weakest that the harness's clusters have: min.insync.replicas 1, but 2
    for the state of share groups; unclean elections only for consumer offsets before 0.11.

    A fault that hits several brokers at once is in the lane's faults once for each replica. Where the internal topic
    has more replicas, the fault is added once for each further one.
    """
    is_offsets = name == CONSUMER_OFFSETS
    unclean = is_offsets and release(lane.version) < (0, 11)
    configured = {CONSUMER_OFFSETS: lane.consumer_offsets, TRANSACTION_STATE: lane.transaction_state}.get(name)
    usual_min_isr = SHARE_STATE_MIN_ISR if name == SHARE_STATE else 1
    topic = configured or InternalTopic(unclean_leader_election=unclean, min_insync_replicas=usual_min_isr)
    most_replicas = INTERNAL_REPLICAS if name == SHARE_STATE else lane.replication_factor  # no key sets SHARE_STATE's
    replicas = topic.replication_factor or min(most_replicas, lane.replication_factor)
    further_replicas = max(replicas - lane.replication_factor, 0)
    on_all_replicas = [
        kind for kind, count in Counter(lane.faults).items() for _ in range(count // lane.replication_factor)
    ]
    return plain_lane(
        lane,
        lane=name,
        acks="all",
        replication_factor=replicas,
        min_insync_replicas=min(topic.min_insync_replicas, replicas),
        unclean_leader_election=topic.unclean_leader_election,
        flushes=topic.flushes,
        idempotence=False,
        faults=(*lane.faults, *(on_all_replicas * further_replicas)),
    )


def internal_topics(lane: Lane) -> dict[str, Lane]:
    """The internal topics that the lane's prediction depends on, as lanes, by name."""
    names = [TRANSACTION_STATE] if lane.transactional is not None else []
    names += [CONSUMER_OFFSETS] if lane.group_anomalies else []
    names += [SHARE_STATE] if lane.share is not None else []
    return {name: as_obeyed(internal_topic(lane, name)) for name in names}

"""Writes a story as the steps of a scenario, which `kafka-chaos scenario run` plays on brokers and on their model.

A story's actions are not the steps of a scenario. In a story, a follower fetches when an action says so. In a scenario
it fetches at once, so a follower that has to stay behind is cut off from its leader before the record is sent. A
scenario's follower may therefore fetch a record earlier than the story's: before acknowledgements, time-outs and other
records, each still possible once the follower has the record. After each election and at the end, the brokers'
logs are compared with the story's. So a story is played as it was told, or refused.
"""

from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, NoReturn

from kafka_chaos.contract.anomalies import Anomaly, Status
from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.lane.lanes import Lane
from kafka_chaos.contract.lane.metadata import KRAFT, USUAL_VERSION, ZOOKEEPER
from kafka_chaos.reference_model.predict.result import Prediction
from kafka_chaos.reference_model.stories.reading import Story, StoryStep, UnknownStory, read_story

_LAG_MS = 2500
"""`replica.lag.time.max.ms` of clusters on which a lagging follower has to leave the ISR within a step."""
_ELECTIONS = frozenset({"elect", "elect_eligible", "elect_last_known", "elect_unclean", "stop_and_move"})
_MAY_CHANGE_LEADER = _ELECTIONS | {"kill", "power_loss", "stop", "pause", "partition", "session_expiry"}
_SKIPPED_ACTIONS = frozenset({"fetch", "timeout", "close", "give_up", "acknowledge", "no_leader", "expire", "learn"})
"""Actions without a step of their own: another step includes them, or they change nothing on a broker."""


class UnplayableStory(UsageFailure):
    """A story that scenarios have no steps for."""


def scenario_of(lane: Lane, anomaly: Anomaly, prediction: Prediction) -> dict[str, Any]:
    """The content of a scenario file that shows the anomaly, by the model's shortest story of it.

    Raises `UsageFailure` where the anomaly is forbidden, and `UnplayableStory` where scenarios have no such steps.
    """
    answer = prediction.anomalies[anomaly]
    if answer.status is Status.FORBIDDEN:
        raise UsageFailure(f"--story {anomaly}: no story, since the anomaly is forbidden ({'; '.join(answer.why)})")
    try:
        story = read_story(lane, answer.why)
    except UnknownStory as error:
        raise UnplayableStory(
            f"--story {anomaly}: scenarios play stories of records and replicas alone: {error}"
        ) from error
    return scenario_file(story, anomaly)


def scenario_file(story: Story, anomaly: Anomaly) -> dict[str, Any]:
    """The content of a scenario file with a story."""
    lane, writer = story.lane, _Writer(story)
    steps = writer.write()
    scenario = {
        "title": f"{anomaly} with {_settings(lane)}, as the model tells it",
        "story": " ".join(story.sentences),
        "acts": [
            {
                "act": f"{anomaly}",
                "cluster": _cluster(lane, lag_is_short=writer.lag_is_short),
                "replicas": list(writer.assignment),
                "min_insync_replicas": lane.min_insync_replicas,
                "unclean_leader_election": lane.unclean_leader_election,
                "steps": steps,
            }
        ],
    }
    return {"scenarios": {f"story-{anomaly.replace('_', '-')}": scenario}}


def _settings(lane: Lane) -> str:
    words = [
        f"acks={lane.acks}",
        f"min.insync.replicas={lane.min_insync_replicas}",
        *(["idempotence"] if lane.idempotence else []),
        *(["unclean leader election"] if lane.unclean_leader_election else []),
    ]
    return ", ".join([*words, f"and {' and '.join(lane.faults)}" if lane.faults else "and no fault"])


def _cluster(lane: Lane, *, lag_is_short: bool) -> dict[str, Any]:
    version = lane.version
    mode = lane.metadata_mode or (ZOOKEEPER if version == USUAL_VERSION else KRAFT)
    name = f"stories on Kafka {version} with {mode}"
    cluster: dict[str, Any] = {"name": name, "kafka_version": version, "metadata_mode": mode}
    cluster["brokers"] = max(3, lane.replication_factor)
    if lane.elr is not None:
        cluster |= {"name": f"{name}, elr={lane.elr}", "elr": lane.elr}
    if lag_is_short:
        cluster |= {"name": f"{cluster['name']}, short lag time", "lag_is_short": True}
        cluster["configs"] = {"replica.lag.time.max.ms": _LAG_MS}
    return cluster


@dataclass
class _Writer:
    """Writes the steps of one story, and keeps the logs that brokers then have.

    `logs`: by broker, the names of its records. `cuts`: each (follower, leader) whose replication is cut off. `away`:
    by broker that is down, frozen or isolated, the step that brings it back. `assignment`: controllers elect in this
    order, so it begins with the brokers that the story elects. `lag_is_short`: whether a follower that lags leaves the
    ISR within a step. `_other_records`: how many records other producers have sent.
    """

    story: Story
    steps: list[Any] = field(default_factory=list)
    cuts: set[tuple[int, int]] = field(default_factory=set)
    away: dict[int, str] = field(default_factory=dict)
    leader: int = 1
    _other_records: int = 0

    def __post_init__(self) -> None:
        self.logs: dict[int, list[str]] = {broker: [] for broker in self.story.brokers}
        leaders = [self.story.leader(step.after) for step in self.story.steps]
        elected = [broker for broker in leaders if broker is not None]
        self.assignment = tuple(dict.fromkeys([1, *elected, *self.story.brokers]))
        self.lag_is_short = any(step.name == "shrink_isr" for step in self.story.steps)

    def write(self) -> list[Any]:
        """Write and return the scenario's steps and expectations; raises `UnplayableStory` if scenarios lack a step."""
        for number, step in enumerate(self.story.steps):
            self._write_step(number, step)
            for record, story_offset in step.reads:
                # Records of other producers shift the story's offsets.
                offset = self._length_up_to(self.leader, story_offset + 1) - 1
                text = f"A consumer reads r{record} at offset {offset}"
                self.steps.append({"expect": text, f"is read at(r{record}, {offset})": True})
        last_leader = self.story.leader(self.story.end)
        if last_leader is None or self._story_records(last_leader) != self.story.log(self.story.end, last_leader):
            raise UnplayableStory(f"{self.story.sentences[-1]} But in the scenario nobody leads, or its log differs")
        self.steps.append({"expect": "The log is the story's", f"log({last_leader})": list(self.logs[last_leader])})
        for broker, back in list(self.away.items()):
            if back == "start":
                self._start(broker)
            else:
                self.steps.append({back: broker})
        self.away.clear()
        for follower, leader in sorted(self.cuts):
            self.steps.append({"heal": [follower, leader]})
        self.steps.append({"expect": "In the end all replicas are equal", "logs are equal": True})
        return self.steps

    def _write_step(self, number: int, step: StoryStep) -> None:
        broker = step.broker
        match step.name:
            case "append":
                self._append(number, step)
            case "not_enough_replicas":
                if self.story.lane.idempotence:
                    self._refuse_story(step, "an idempotent producer sends it again by itself")
                record = f"r{step.action.record}"
                self.steps.append({"send once": record, "sentence": step.sentence})
                self.steps.append({"expect": f"{record} is refused", f"error({record})": "NOT_ENOUGH_REPLICAS"})
            case "shrink_isr":
                self._shrink(number, step)
            case "expand_isr":
                # A follower joins the ISR by itself once it reaches the leader.
                self._heal(broker)
            case "kill":
                self._leave(broker, "kill", back="start")
            case "stop":
                self._leave(broker, "stop", back="start")
            case "stop_and_move":
                self._leave(broker, "stop", back="start")
                self._elect(step)
            case "power_loss":
                # A killed broker loses what it had not flushed, a record at a time.
                self._leave(broker, "kill", back="start")
                kept = self._length_up_to(broker, int(step.action.detail))
                while len(self.logs[broker]) > kept:
                    lost = self.logs[broker].pop()
                    self.steps.append({"lose power": broker, "kept": len(self.logs[broker]), "lost": lost})
            case "pause":
                expires = any(later.name == "expire" and later.broker == broker for later in self.story.steps[number:])
                self._leave(broker, "pause" if expires else "freeze", back="thaw")
            case "thaw":
                if self.away.pop(broker, None) != "thaw":
                    self._refuse_story(
                        step, "a scenario's isolated broker comes back only after its session has expired"
                    )
                self.steps.append({"thaw": broker})
            case "partition":
                self._leave(broker, "isolate", back="rejoin")
            case "session_expiry":
                # The broker runs on, and follows the next leader at once.
                if self.story.lane.metadata_mode == KRAFT:
                    self._refuse_story(step, "in KRaft mode there are no sessions that a tool could end")
                self.steps.append({"expire session": broker})
            case "restart":
                self._start(broker)
            case "restart_all":
                for down in [key for key, back in self.away.items() if back == "start"]:
                    self._start(down)
            case "elect" | "elect_eligible" | "elect_last_known" | "elect_unclean":
                self._elect(step)
            case _ if step.name not in _SKIPPED_ACTIONS:
                self._refuse_story(step, "scenarios have no such step")

    def _append(self, number: int, step: StoryStep) -> None:
        """A record reaches the leader, and every follower that is not to stay behind."""
        if step.action.from_socket or step.broker != self.leader or self.away.get(step.broker):
            self._refuse_story(step, "a scenario's producer can't send it there and then")
        record, lane = f"r{step.action.record}", self.story.lane
        self._cut_lagging_followers(number, step)
        is_answered = lane.acks == "0" or self._is_acknowledged(number, step)
        if lane.idempotence and not is_answered:
            # An idempotent producer sends until it is answered. What consumers read is committed: it can be answered.
            is_answered = self._is_read_while_led(number, step)
            if not is_answered:
                self._refuse_story(step, "an idempotent producer sends it again by itself")
        if is_answered:
            producer = "p" if lane.idempotence else f"p{number}"
            asks = [broker for broker in self.assignment if broker not in self.away]  # for the leader
            sent: dict[str, Any] = {"produce": record, "acks": lane.acks, "producer": producer}
            self.steps.append(sent | ({"idempotent": True} if lane.idempotence else {}) | {"asks": asks})
        else:
            self.steps.append({"send unanswered": record, "acks": lane.acks})
        self._replicate(record)
        if is_answered and lane.acks != "0":
            offset = len(self.logs[self.leader]) - 1
            self.steps.append({"expect": f"{record} is acknowledged at offset {offset}", f"offset({record})": offset})
        elif is_answered:
            self.steps.append({"expect": f"{record} counts as acknowledged", f"is acknowledged({record})": True})

    def _cut_lagging_followers(self, number: int, step: StoryStep) -> None:
        """Cut off the followers that are to lack this record, and connect those that fetch it."""
        offset = int(step.action.detail)
        for follower in self.assignment:
            if follower == self.leader or follower in self.away:
                continue
            if self._stays_behind(follower, number, offset):
                self._cut(follower)
            else:
                self._heal(follower)

    def _stays_behind(self, follower: int, number: int, offset: int) -> bool:
        """Whether a follower has to lack the record at `offset`: it leads or leaves the ISR before it fetches that."""
        for later in self.story.steps[number + 1 :]:
            if later.broker == follower:
                if later.name == "fetch" and int(later.action.detail) == offset:
                    return False
                if later.name in _ELECTIONS or later.name == "shrink_isr":
                    return True
            if later.name in _ELECTIONS and self.story.leader(later.after) == follower:
                return True
            if later.name == "append" and later.broker != self.leader:  # A new leader appends: it need not lag for it.
                return False
        return False

    def _is_acknowledged(self, number: int, step: StoryStep) -> bool:
        for later in self.story.steps[number + 1 :]:
            if later.action.record == step.action.record and later.name in ("append", "timeout", "acknowledge"):
                return later.name == "acknowledge"
        return False

    def _is_read_while_led(self, number: int, step: StoryStep) -> bool:
        for later in self.story.steps[number:]:
            if later.name in _MAY_CHANGE_LEADER:
                return False
            if (step.action.record, int(step.action.detail)) in later.reads:
                return True
        return False

    def _shrink(self, number: int, step: StoryStep) -> None:
        """A follower leaves the ISR since it lacks records. If it lacks none yet, another producer first sends one."""
        self._cut(step.broker)
        if len(self.logs[step.broker]) < len(self.logs[self.leader]):
            return
        for later in takewhile(lambda later: later.name == "shrink_isr", self.story.steps[number:]):
            self._cut(later.broker)
        self._other_records += 1
        record = f"other {self._other_records}"
        self.steps.append({"produce": record, "acks": "1", "producer": "other"})
        self._replicate(record)

    def _elect(self, step: StoryStep) -> None:
        """The controller elects a broker, which is started first if it is down."""
        leader = self.story.leader(step.after)
        if leader is None:
            self._refuse_story(step, "no broker leads after it")
        if self.away.get(leader) == "start":
            self._start(leader)
        if self._story_records(leader) != self.story.log(step.after, leader):
            self._refuse_story(step, "in the scenario that broker has another log")
        self.leader = leader
        self.steps.append({"expect": f"Broker {leader} leads", "leader": leader})
        self._follow()

    def _start(self, broker: int) -> None:
        del self.away[broker]
        # Packet filter rules vanish with the container's network.
        self.cuts = {cut for cut in self.cuts if cut[1] != broker}
        self.steps.append({"start": broker})

    def _leave(self, broker: int, step: str, *, back: str) -> None:
        self.away[broker] = back
        self.steps.append({step: broker})

    def _cut(self, follower: int) -> None:
        """Cut a follower off from its leader, unless it is cut off already."""
        if (follower, self.leader) not in self.cuts:
            self.cuts.add((follower, self.leader))
            self.steps.append({"cut": [follower, self.leader]})

    def _heal(self, follower: int) -> None:
        """Connect a follower with its leader, if it is cut off."""
        if (follower, self.leader) in self.cuts:
            self.cuts.remove((follower, self.leader))
            self.steps.append({"heal": [follower, self.leader]})
            self._follow()

    def _replicate(self, record: str) -> None:
        self.logs[self.leader].append(record)
        self._follow()

    def _follow(self) -> None:
        for broker in self.logs:
            if broker not in self.away and (broker, self.leader) not in self.cuts:
                self.logs[broker] = list(self.logs[self.leader])

    def _story_records(self, broker: int) -> list[int]:
        return [int(name[1:]) for name in self.logs[broker] if name.startswith("r")]

    def _length_up_to(self, broker: int, count: int) -> int:
        """The length of a broker's log up to and including its `count`-th record of the story; 0 for no record."""
        offsets = [offset for offset, name in enumerate(self.logs[broker]) if name.startswith("r")]
        return offsets[count - 1] + 1 if count else 0

    def _refuse_story(self, step: StoryStep, reason: str) -> NoReturn:
        raise UnplayableStory(f"scenarios can't play “{step.sentence}”: {reason}")

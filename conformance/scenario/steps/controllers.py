"""Steps about controllers' requests: capture or imitate them, let brokers refuse them, or lose a log directory."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafka_chaos.conformance.controllers.capture import Capture, Exchange, captured
from kafka_chaos.conformance.controllers.requests import (
    allow_cluster_action_to_brokers_only,
    errors_of,
    leader_and_isr,
    send_as_controller,
)
from kafka_chaos.conformance.scenario.observe import ReplicaObserver
from kafka_chaos.conformance.scenario.steps.faults import FaultSteps
from kafka_chaos.contract.command.waiting import wait_until
from kafka_chaos.harness.cluster.configuration.server_properties import SECOND_BROKER_DATA
from kafka_chaos.reference_model.lockstep.stepping import step


@dataclass
class ControllerSteps(FaultSteps):
    """The steps of `FaultSteps`, and steps about the requests that controllers send."""

    observer: ReplicaObserver
    answer_errors: dict[str, str] = field(default_factory=dict)  # errors of an answer, by its step's sentence or record
    requests: list[Exchange] = field(default_factory=list)
    """The requests of the last capture that are about the topic."""
    _capture: Capture | None = None

    def capture(self) -> None:
        """Begin to capture the controllers' requests; the cluster must have links."""
        self._capture = self.watches.enter_context(captured(self.lease.cluster))

    def end_capture(self, api: str = "", broker: int = 0) -> None:
        """End the capture once every request has its answer.

        With `api`, first wait until `broker` has answered an `api` request on the topic (StopReplica: a deletion).
        """
        capture = self._capture
        assert capture is not None, "nothing is captured"

        def is_awaited(exchange: Exchange) -> bool:
            concerns = exchange.deletes(self.topic) if api == "StopReplica" else bool(exchange.states_of(self.topic))
            return concerns and (exchange.api, exchange.broker) == (api, broker)

        if api:
            capture.await_exchange(is_awaited, f"{api} to broker {broker}")
        capture.await_answers()
        self.watches.close()
        self.requests = [exchange for exchange in capture.exchanges() if exchange.states_of(self.topic)]
        self.expect("Frames and connections that the links could not read", capture.unreadable, 0)

    def note_requests(self) -> None:
        """Record the captured requests as a table.

        A broker must refuse a LeaderAndIsr whose leader epoch is not above the epoch that it has, and no other request.
        The partition's error in the answer is then STALE_CONTROLLER_EPOCH, though the leader epoch is the reason.
        """
        epochs: dict[int, int] = {}
        unexpected, rows = [], []
        for exchange in self.requests:
            for state in exchange.states_of(self.topic):
                expected, errors = {"NONE"}, set(exchange.errors(self.topic))
                if exchange.api == "LeaderAndIsr":
                    epoch, latest = int(state["leader_epoch"]), epochs.get(exchange.broker, -1)
                    expected |= {"STALE_CONTROLLER_EPOCH"} if epoch <= latest else set()
                    epochs[exchange.broker] = max(epoch, latest)
                if errors != expected:
                    name = f"{exchange.api} to broker {exchange.broker}, leader epoch {state.get('leader_epoch', '-')}"
                    unexpected.append(f"{name}: {' '.join(sorted(errors))}")
                rows.append(_row(exchange, state, self.requests[0].sent_ns, errors))
        text = "Only a LeaderAndIsr in a leader epoch that the broker has is refused; what differs from that"
        self.expect(text, unexpected, [])
        self.fact("what the controller sent", rows)

    def send_leader_and_isr(
        self,
        sentence: str,
        *,
        broker: int,
        leader_epoch: int,
        controller_epoch: int | None = None,
        leader: int | None = None,
        authorized: bool = True,
    ) -> None:
        """Send a broker a LeaderAndIsr request in the name of broker 3, by default with the present controller epoch.

        `leader`: by default, the broker itself. `authorized`: whether ACLs allow the request; the model has no ACLs.
        `answer_errors` gets the answer's `errors_of`, by `sentence`.
        """
        request = leader_and_isr(
            controller=3,
            controller_epoch=self.observation.controller_epoch or 0 if controller_epoch is None else controller_epoch,
            topic_name=self.topic,
            partition_index=0,
            leader=leader or broker,
            leader_epoch=leader_epoch,
            isr=[1, 2, 3],
            replicas=[1, 2, 3],
        )

        def send() -> None:
            answer = send_as_controller(self.lease.cluster.addresses[broker], request)
            self.answer_errors[sentence] = " ".join(errors_of(answer))

        arguments = {"broker": broker, "leader_epoch": leader_epoch, "authorized": authorized}
        self.take(sentence, send, step("send_leader_and_isr", controller_epoch=controller_epoch, **arguments))

    def allow_cluster_action_to_brokers_only(self) -> None:
        """Let brokers refuse ClusterAction to all but brokers from now on; the cluster must have an authorizer."""
        allow_cluster_action_to_brokers_only(self.lease.cluster)

    def lose_log_directory(self, broker: int) -> None:
        """Move away a broker's second log directory, which has the replica, as if the directory's disk had failed.

        The broker notices this at its next checkpoint, and goes on with the other directory.
        """
        node, folder = self.node(broker), SECOND_BROKER_DATA
        # A broker creates a replica in the directory with the fewest: the first directory has an earlier act's topic.
        is_in_second = f"{self.topic}-0" in node.must_execute("ls", folder).split()
        self.expect("The replica is in the second log directory", is_in_second)
        self.observer.brokers_without_files = frozenset({broker})
        # No other act may use this cluster: its broker stays without the log directory.
        self.lease.is_reusable = False

        def lose() -> None:
            node.must_execute("mv", folder, f"{folder}.gone")
            reported, awaited = f"Stopping serving logs in dir {folder}", f"{node.name} to give up {folder}"
            wait_until(lambda: reported in node.log(), awaited, timeout=30, seen=lambda: node.log(tail=3))

        self.take(f"A log directory of broker {broker} fails.", lose, step("fail_log_directory", broker=broker))


def _row(exchange: Exchange, state: Mapping[str, Any], first_sent_ns: int, errors: set[str]) -> dict[str, Any]:
    return {
        "ms": round((exchange.sent_ns - first_sent_ns) / 1e6, 1),
        "request": f"{exchange.api} {exchange.version}",
        "to": exchange.broker,
        "leader": state.get("leader", ""),
        "epoch": state.get("leader_epoch", ""),
        "ISR": list(state.get("isr", ())),
        "replicas": list(state.get("replicas", ())),
        "adding": list(state.get("adding_replicas", ())),
        "removing": list(state.get("removing_replicas", ())),
        "error": " ".join(sorted(errors)),
    }


def _exchanges(stage: ControllerSteps, broker: int) -> list[Exchange]:
    return [exchange for exchange in stage.requests if exchange.broker == broker]


def _field_of_first(stage: ControllerSteps, broker: int, name: str) -> Any:
    """A field of the first request to a broker, or of the partition's state in it."""
    first = _exchanges(stage, broker)[0]
    return {**first.request, **first.states_of(stage.topic)[0]}[name]


def _leader_and_isr_fields(stage: ControllerSteps) -> list[list[str]]:
    """The names of the fields of the first LeaderAndIsr request, and of the partition's state in it, both sorted."""
    first = next(exchange for exchange in stage.requests if exchange.api == "LeaderAndIsr")
    bodies = (first.request, first.states_of(stage.topic)[0])
    return [sorted(name for name in body if not name.startswith("_")) for body in bodies]


REQUEST_OBSERVATIONS: Mapping[str, Callable[..., Any]] = {
    "versions of requests": lambda stage: sorted({(exchange.api, exchange.version) for exchange in stage.requests}),
    "requests to": lambda stage, broker: [*dict.fromkeys(exchange.api for exchange in _exchanges(stage, broker))],
    "versions of": lambda stage, api: sorted({exchange.version for exchange in stage.requests if exchange.api == api}),
    "brokers told to delete": lambda stage: sorted(
        {exchange.broker for exchange in stage.requests if exchange.deletes(stage.topic)}
    ),
    "first request to": _field_of_first,
    "fields of LeaderAndIsr": _leader_and_isr_fields,
    "answer of": lambda stage, broker, api: next(
        exchange.errors(stage.topic) for exchange in _exchanges(stage, broker) if exchange.api == api
    ),
}
"""The observations of captured requests, by their names in files."""

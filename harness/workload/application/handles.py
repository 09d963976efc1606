"""A user's application as producer or consumer of a lane: every record that it sends or reads is in the history.

The application is a function that takes a handle, works until the handle tells it to end, and returns. The function's
clients come from the handle: `confluent_kafka` clients that record what passes through them. A record keeps the
application's value and key; the header `kafka-chaos-id` carries its identity.
"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kafka_chaos.contract.command.errors import ClusterFailure, KafkaChaosError, UsageFailure
from kafka_chaos.contract.lane.groups import EARLIEST
from kafka_chaos.harness.experiment.known_configs import refused_keys
from kafka_chaos.harness.experiment.lane_specs import LaneSpec
from kafka_chaos.harness.workload.application.consumer import ApplicationConsumer, ApplicationConsumers
from kafka_chaos.harness.workload.application.producer import ApplicationProducer, ApplicationProducers
from kafka_chaos.harness.workload.clients.producers import NOT_CANCELLED, LaneProducers
from kafka_chaos.harness.workload.groups.group_kinds import configs_decided_by, reading_group
from kafka_chaos.harness.workload.settings import LoadSettings
from kafka_chaos.harness.workload.worker import Worker

_LANE_KEY_BY_CONFIG = {
    "acks": "acks",
    "request.required.acks": "acks",
    "enable.idempotence": "idempotence",
    "max.in.flight": "max_in_flight",
    "max.in.flight.requests.per.connection": "max_in_flight",
}
"""For each of librdkafka's keys on which the prediction depends, the lane's key that sets it."""
_RETURN_TIMEOUT_S = 30.0

R = TypeVar("R")
"""The class that makes and records the clients of a handle: `ApplicationProducers` or `ApplicationConsumers`."""


class Handle(Generic[R]):
    """The handle that the application's function gets: where to work, and for how long.

    `client_configs`: librdkafka's keys for a secured listener, for clients that the application makes without a handle.
    """

    def __init__(self, lane: LaneSpec, load: LoadSettings, recorder: R) -> None:
        self.lane = lane.lane
        self.topic = lane.topic_name
        self.partitions = lane.initial_partitions
        self.bootstrap_servers = load.bootstrap_servers
        self.client_configs = dict(load.client_configs)
        self.over = threading.Event()
        self._lane = lane
        self._recorder = recorder

    def running(self) -> bool:
        """Whether the function should continue. Once this is false, the function should finish its work and return."""
        return not self.over.is_set()

    def wait(self, seconds: float) -> bool:
        """Pause for up to `seconds`, less if the load ends meanwhile; returns whether to continue."""
        return not self.over.wait(seconds)

    def _contradiction(self, key: str, setting: str, remedy: str) -> UsageFailure:
        """The error for a config `key` that contradicts the lane's `setting`; `remedy`: how to set the lane instead."""
        return UsageFailure(
            f"{key}: the lane {self.lane} has {setting}, and the prediction holds only for that: set it by "
            f"lane({self.lane!r}, {remedy})"
        )

    def _consumer(self, recorder: ApplicationConsumers, configs: Mapping[str, object] | None) -> ApplicationConsumer:
        """A consumer of the lane that the recorder reads, with the application's `configs` and those of its group.

        Raises `UsageFailure` where `configs` contradict the group.
        """
        key, group, group_id = reading_group(self._lane, recorder.read_lane)
        own_configs = dict(configs or {})
        decided = {} if group is None else configs_decided_by(group)
        if group is None:
            group_id = f"kafka-chaos-{self.topic}"
        elif own_configs.get("group.id", group_id) != group_id:
            raise UsageFailure(f"group.id: the lane {self.lane} has one group, {group_id}: leave it out")
        for name, value in decided.items():
            if name in own_configs and _as_text(own_configs[name]) != _as_text(value):
                raise self._contradiction(name, f"a {key} with {name}={_as_text(value)}", f"{key}={{...}}")
        _check_known("consumer", self._lane, {**own_configs, **decided})
        reset = EARLIEST if group is None else group.reset
        defaults: dict[str, object] = {"auto.offset.reset": reset, "reconnect.backoff.max.ms": 500, "log_level": 0}
        defaults |= {"group.id": group_id, **self._lane.consumer_configs, **self.client_configs}
        return recorder.client({**defaults, **own_configs, **decided, "bootstrap.servers": self.bootstrap_servers})


class ProducerHandle(Handle[ApplicationProducers]):
    """The handle of a `producer` function."""

    def producer(self, configs: Mapping[str, object] | None = None) -> ApplicationProducer:
        """A `confluent_kafka.Producer` that records everything it sends to the lane's topic.

        `configs` are librdkafka's keys; bootstrap servers, acks, idempotence and requests in flight are the lane's.
        Raises `UsageFailure` if `configs` contradict the lane: its prediction would be wrong. In a lane with
        transactions, a `transactional.id` makes it a transactional producer, whose transactions are recorded, too.
        """
        own_configs = dict(configs or {})
        own_configs.pop("bootstrap.servers", None)
        for key, name in _LANE_KEY_BY_CONFIG.items():
            if key in own_configs:
                value = str(getattr(self._lane, name)).lower()
                if _as_text(own_configs.pop(key)) != _as_text(value):
                    raise self._contradiction(key, f"{name}={value}", f"{name}=…")
        transactional = self._lane.transactional
        if "transactional.id" in own_configs and transactional is None:
            raise self._contradiction("transactional.id", "no transactions", "transactional={...}")
        timeout = own_configs.get("transaction.timeout.ms")
        if timeout is not None and transactional is not None and str(timeout) != str(transactional.timeout_ms):
            has = f"timeout_ms={transactional.timeout_ms}"
            raise self._contradiction("transaction.timeout.ms", has, "transactional={'timeout_ms': ...}")
        _check_known("producer", self._lane, own_configs)
        return self._recorder.client({**self._recorder.configs, **own_configs})


class ConsumerHandle(Handle[ApplicationConsumers]):
    """The handle of a `consumer` function."""

    def consumer(self, configs: Mapping[str, object] | None = None) -> ApplicationConsumer:
        """A `confluent_kafka.Consumer` that records what it receives from the lane's topic.

        `configs` are librdkafka's keys. By default, the consumer's group is named after the topic, and reads from the
        earliest offset. In a lane with a `group`, the consumer is a member of it; its time-outs, assignor and commits
        are the lane's. Raises `UsageFailure` if `configs` contradict the lane.
        """
        return self._consumer(self._recorder, configs)


class LoopHandle(ProducerHandle):
    """The handle of a `producer` function in a lane with a `loop`: the function reads `source_topic`, writes `topic`.

    `running` becomes false once all of the source is read; then the function finishes its work and returns.
    """

    def __init__(self, lane: LaneSpec, load: LoadSettings, recorder: ApplicationProducers) -> None:
        super().__init__(lane, load, recorder)
        assert recorder.inputs is not None
        self._inputs = recorder.inputs
        self.source_topic = self._inputs.read_lane.topic_name

    def consumer(self, configs: Mapping[str, object] | None = None) -> ApplicationConsumer:
        """A `confluent_kafka.Consumer` that records what it receives from the source, as a member of the loop's group.

        The consumer does not commit by itself. Raises `UsageFailure` if `configs` contradict the lane.
        """
        return self._consumer(self._inputs, configs)


def _check_known(kind: str, lane: LaneSpec, configs: Mapping[str, object]) -> None:
    """Refuse configs whose effect on the lane's prediction is not known; callbacks and loggers have none."""
    values = {key: value for key, value in configs.items() if not callable(value) and key != "logger"}
    for _, message in refused_keys(kind, values, lane.as_lane(())):
        raise UsageFailure(f"lane {lane.lane}: {message}")


@dataclass(frozen=True, kw_only=True)
class Application:
    """The functions that replace the harness's own clients in a lane; None keeps the harness's client."""

    producer: Callable[[ProducerHandle], object] | None = None
    consumer: Callable[[ConsumerHandle], object] | None = None


H = TypeVar("H", bound=Handle[Any])


class ApplicationThread(Worker):
    """A thread that calls the function of the application that is the lane's `role`, with its handle."""

    def __init__(self, function: Callable[[H], object], handle: H, *, role: str) -> None:
        super().__init__(lambda: function(handle), name=f"the {role} function of lane {handle.lane}")
        self.ending = handle.over

    def end(self, timeout: float | None = _RETURN_TIMEOUT_S) -> None:
        """Tell the function to return, and wait; raises its error, or `ClusterFailure` if it did not return in time."""
        super().end(timeout)
        if self.is_alive():
            raise ClusterFailure(
                f"{self.name} did not return within {timeout or 0:g} s after its handle told it to end: "
                "let it loop while handle.running()"
            )
        self.raise_error()

    def raise_error(self) -> None:
        """Raise what the function raised."""
        if self.error is not None and not isinstance(self.error, KafkaChaosError):
            raise ClusterFailure(f"{self.name} raised {type(self.error).__name__}: {self.error}") from self.error
        super().raise_error()


class ApplicationMembers(ApplicationConsumers):
    """A function of the application whose consumers read a lane, alone or in groups.

    With a `source`, the function is the loop of the `lane`: its consumers read the source, and `output` has the records
    that it writes, which get their outcomes once the source is read to its end.
    """

    def __init__(
        self, lane: LaneSpec, function: Callable[[Any], object], load: LoadSettings, *, source: LaneSpec | None = None
    ) -> None:
        """Raises `UsageFailure` if the group is to have crashes or the like, which only the harness's members do."""
        read_lane = lane if source is None else source
        key, group, group_id = reading_group(lane, read_lane)
        for name in ("crashes", "freezes", "joins", "leaves"):
            if group is not None and getattr(group, name):
                raise UsageFailure(
                    f"{key}: the lane {lane.lane} has {name}={getattr(group, name)}, which only the harness's members "
                    "do: leave it out for members of the application"
                )
        super().__init__(read_lane, load, group_id=None if group is None else group_id)
        self.name = lane.lane  # Not of the source, which the application may read outside of the loop, too.
        self.output = ApplicationProducers(lane, load, self)
        handle: Any = ConsumerHandle(lane, load, self)
        if source is not None:
            handle = LoopHandle(lane, load, self.output)
        role = "consumer" if source is None else "producer"
        self._worker: ApplicationThread = ApplicationThread(function, handle, role=role)

    def begin_load(self) -> None:
        """Call the function."""
        self._worker.start()

    def may_read_more(self) -> bool:
        """Whether the function has not returned yet."""
        return self._worker.is_alive()

    def report_unread(self, problem: str) -> None:
        """Report that the consumers did not reach the end."""
        self.load.on_notice(f"{self._worker.name} {problem}")

    def drain(self, end_offsets: Mapping[int, int], *, timeout: float) -> None:
        """Wait until all is read to the ends, and end the function; then wait until its records have outcomes."""
        super().drain(end_offsets, timeout=timeout)
        self._worker.end()
        self.output.finish(timeout, NOT_CANCELLED)

    def close(self) -> None:
        """End the function."""
        self._worker.end()
        self.output.finish(0.0, NOT_CANCELLED)
        self.leave()


class ProducerFunction(ApplicationProducers, LaneProducers):
    """A lane whose producer is a function of the application."""

    def __init__(self, lane: LaneSpec, function: Callable[[ProducerHandle], object], load: LoadSettings) -> None:
        super().__init__(lane, load)
        self._thread = ApplicationThread(function, ProducerHandle(lane, load, self), role="producer")

    def run(self, sending: threading.Event) -> None:
        """Call the function and let it work until `sending` is cleared, or the function returns by itself."""
        self._thread.start()
        while sending.is_set() and self._thread.is_alive():
            self._thread.join(0.05)
        self._thread.end(self._load.workload.settle_timeout)


def _as_text(value: object) -> str:
    """A config's value as librdkafka reads it; acks=-1 means all."""
    text = str(value).lower()
    return "all" if text == "-1" else text

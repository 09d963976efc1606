"""One connection through a link: its requests and responses, and what the rules do to them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, Any

from kafka_chaos.contract.wire.errors import RETRIABLE_ERRORS
from kafka_chaos.contract.wire.messages import CONTROLLER_APIS
from kafka_chaos.faults.links.relay.contents import Contents, FetchSession, MessageDecoder, acks_and_contents, errors_of
from kafka_chaos.faults.links.relay.frames import FETCH, METADATA, PRODUCE, Header, read_correlation_id, read_header
from kafka_chaos.faults.links.relay.rules import ANSWER, CUT, DROP, REPEAT, REQUEST, RESPONSE, STALE, Rule, Tally
from kafka_chaos.faults.links.relay.stream import HEAD_BYTES, Fate, Replacement

_MOST_TRACED = 50  # partitions, transactional ids, or leader epochs in a line of the trace


@dataclass(slots=True)
class Exchange:
    """A request, its response, and what a rule did to them. Times come from `time.monotonic_ns()`."""

    header: Header
    size: int
    asked_ns: int
    contents: Contents | None
    metadata_query: tuple[Any, ...] | None = None
    """The request's key in `RelayContext.metadata`, if it is a Metadata request that was read whole."""
    answered_ns: int | None = None
    answer_size: int | None = None
    errors: tuple[int, ...] = ()
    answer: Mapping[str, Any] | None = None
    """The response's body, if the request came from a controller."""
    fault: dict[str, Any] = field(default_factory=dict)
    """The `rule` (its id) that took a frame of the exchange, its `action`, `side` and `at_ns`; empty if none did."""
    seconds: float | None = None
    """How long the taken frame waits; None: until the rule ends."""


@dataclass(slots=True)
class Counts:
    """The number of frames and bytes that have passed through all links together."""

    requests: int = 0
    answers: int = 0
    bytes: int = 0
    unknown_connections: int = 0  # connections that do not speak Kafka's protocol
    unknown_answers: int = 0  # responses to no request that the link has seen


class RelayContext:
    """The state that a relay's conversations share. `traces_controllers`: whether controllers' requests are traced
    with their whole bodies."""

    def __init__(self) -> None:
        self.decoder = MessageDecoder()
        self.counts = Counts()
        self.tallies: dict[str, Tally] = {}
        self.metadata: dict[tuple[Any, ...] | None, bytes] = {}
        """The last response to each Metadata request, by `Exchange.metadata_query`; it stays during a `stale` rule."""
        self.trace: IO[str] | None = None
        self.traces_controllers = False

    def write_to_trace(self, conversation: Conversation, exchange: Exchange) -> None:
        """Write a finished exchange to the trace, if there is one."""
        if self.trace is not None:
            json.dump(conversation.line(exchange), self.trace, separators=(",", ":"), default=str)
            self.trace.write("\n")


@dataclass(slots=True)
class Conversation:
    """The frames of one connection from `peer` (a host name, or `clients`) to `node`, on its `port`."""

    context: RelayContext
    number: int
    node: str
    port: int
    peer: str
    waiting: dict[str, Exchange] = field(default_factory=dict)
    """For each side, the exchange whose frame waits, or whose frame is lost with all that follow it."""
    session: FetchSession = field(default_factory=FetchSession)
    _pending: dict[int, Exchange] = field(default_factory=dict)
    """The exchanges without a response so far, by correlation id."""
    _repeated: set[int] = field(default_factory=set)
    """The correlation ids of requests that were sent twice and answered once: their second responses are to come."""
    is_opaque: bool = False
    """Whether the connection does not speak Kafka's protocol, as far as can be told: its bytes pass unread."""

    def fate_of_request(self, frame: memoryview, size: int) -> Fate | Replacement:
        """Note a request of `size` bytes, and return its fate; `frame` has the request's beginning, or all of it."""
        header = None if self.is_opaque else read_header(frame)
        if header is None:
            self.is_opaque = True
            self.context.counts.unknown_connections += 1
            return Fate.OPAQUE
        possible = self._possible_tallies(header)
        reads_contents = any(tally.rule.reads_contents for tally in possible) or self._traces_all(header)
        needs_whole = reads_contents or any(tally.rule.replaces(REQUEST) for tally in possible)
        if needs_whole and len(frame) < size:
            return Fate.WHOLE
        is_answered, contents = self._contents(header, frame, size, reads_contents=reads_contents)
        counts = self.context.counts
        counts.requests += 1
        counts.bytes += size
        exchange = Exchange(header, size, time.monotonic_ns(), contents)
        if header.api == METADATA and len(frame) == size:
            # Brokers answer alike, but each of their listeners has addresses of its own.
            exchange.metadata_query = (self.port, header.version, bytes(frame[header.body :]))
        if is_answered:
            self._pending[header.correlation_id] = exchange
        fate = self._fate(exchange, REQUEST, possible, frame)
        if not is_answered and fate is not Fate.WAIT:
            self.context.write_to_trace(self, exchange)
        return fate

    def fate_of_response(self, frame: memoryview, size: int) -> Fate | Replacement:
        """Note a response, and return its fate or what passes instead; parameters as of `fate_of_request`."""
        if self.is_opaque or len(frame) < 4:  # a correlation id has four bytes
            return Fate.OPAQUE
        correlation_id = read_correlation_id(frame)
        exchange = self._pending.get(correlation_id)
        possible = [] if exchange is None else self._possible_tallies(exchange.header)
        may_be_replaced = correlation_id in self._repeated or any(tally.rule.replaces(RESPONSE) for tally in possible)
        # Metadata is read for the names of topic ids.
        is_read = exchange is not None and (exchange.header.api == METADATA or self._traces_all(exchange.header))
        if (may_be_replaced or is_read) and len(frame) < size:
            return Fate.WHOLE
        counts = self.context.counts
        counts.answers += 1
        counts.bytes += size
        if exchange is None:
            if correlation_id in self._repeated:
                self._repeated.remove(correlation_id)
                return ()
            counts.unknown_answers += 1
            return Fate.PASS
        del self._pending[correlation_id]
        if exchange.fault.get("action") == REPEAT:
            self._repeated.add(correlation_id)
        header = exchange.header
        reads_errors = self.context.trace is not None and header.api != FETCH and len(frame) == size <= HEAD_BYTES
        if is_read or reads_errors:
            body = self.context.decoder.response(header, frame)
            exchange.errors = tuple(dict.fromkeys(errors_of(body or {})))
            exchange.answer = body if self._traces_all(header) else None
        exchange.answered_ns, exchange.answer_size = time.monotonic_ns(), size
        fate = self._fate(exchange, RESPONSE, possible, frame)
        has_stale_rule = any(tally.rule.action == STALE for tally in self.context.tallies.values())
        if exchange.metadata_query is not None and not has_stale_rule:
            self.context.metadata[exchange.metadata_query] = bytes(frame)
        if fate is not Fate.WAIT:
            self.context.write_to_trace(self, exchange)
        return fate

    def note_release(self, side: str) -> None:
        """Note that the frame that waited on this side waits no longer, but passes."""
        exchange = self.waiting.pop(side)
        exchange.fault["until_ns"] = time.monotonic_ns()
        # A request with a response to come is traced together with that response.
        if side == RESPONSE or exchange.header.correlation_id not in self._pending:
            self.context.write_to_trace(self, exchange)

    def note_end(self) -> None:
        """Note that the connection is over, and trace the exchanges that are not traced yet."""
        self.trace_unanswered()
        self._pending.clear()
        self.waiting.clear()

    def trace_unanswered(self) -> None:
        """Write to the trace the exchanges whose response the sender does not have yet."""
        for exchange in self._pending.values():
            self.context.write_to_trace(self, exchange)
        waiting = self.waiting.get(RESPONSE)
        # A response that was lost is in the trace already.
        if waiting is not None and waiting.fault["action"] != DROP:
            self.context.write_to_trace(self, waiting)

    def _contents(
        self, header: Header, frame: memoryview, size: int, *, reads_contents: bool
    ) -> tuple[bool, Contents | None]:
        """Whether the request gets an answer at all (Produce with acks=0 does not), and its contents (None: unread)."""
        decoder = self.context.decoder
        if header.api == PRODUCE:
            produced = acks_and_contents(header, frame, decoder.topic_names)
            acks, contents = produced if produced is not None else (1, None)  # unreadable: expect an answer
            if reads_contents:
                contents = decoder.request(header, frame, self.session) or contents
            return acks != 0, contents
        # Every fetch of a session is read: it names only the partitions that changed.
        if len(frame) < size or not (reads_contents or self.context.trace is not None or header.api == FETCH):
            return True, None
        return True, decoder.request(header, frame, self.session)

    def _possible_tallies(self, header: Header) -> list[Tally]:
        """The tallies of the rules that may match an exchange with this header."""
        return [tally for tally in self.context.tallies.values() if tally.rule.may_match(self.node, header, self.peer)]

    def _traces_all(self, header: Header) -> bool:
        """Whether a request with this header and its response are traced with their whole bodies."""
        return self.context.traces_controllers and header.api in CONTROLLER_APIS

    def unanswered_controller_requests(self) -> int:
        """How many of the controllers' requests have no response yet."""
        return sum(exchange.header.api in CONTROLLER_APIS for exchange in self._pending.values())

    def _fate(self, exchange: Exchange, side: str, possible: list[Tally], frame: memoryview) -> Fate | Replacement:
        """The fate of a request or response by the first rule that takes it, or what passes instead."""
        for tally in possible:
            rule = tally.rule
            if rule.side != side or not rule.matches(exchange.contents):
                continue
            replacement = self._replacement(rule, exchange, frame)
            if rule.replaces(side) and replacement is None:
                continue
            if not tally.takes(exchange.header, self.peer, exchange.contents):
                continue
            exchange.fault = {"rule": rule.id, "action": rule.action, "side": side, "at_ns": time.monotonic_ns()}
            if rule.action == ANSWER:
                exchange.errors = (RETRIABLE_ERRORS[rule.error],)
            if replacement is not None:
                return replacement
            if rule.action == CUT:
                return Fate.LAST if side == REQUEST else Fate.END
            self.waiting[side] = exchange
            size = exchange.size if side == REQUEST else exchange.answer_size
            exchange.seconds = tally.waiting_seconds(size or 0)
            return Fate.LOSE if rule.action == DROP else Fate.WAIT
        return Fate.PASS

    def _replacement(self, rule: Rule, exchange: Exchange, frame: memoryview) -> Replacement | None:
        """The frames that a rule lets pass in place of a whole frame; None if the rule can't change this frame."""
        decoder, header = self.context.decoder, exchange.header
        changed: bytes | None = None
        match rule.action:
            case "repeat":
                return bytes(frame), bytes(frame)
            case "answer":
                changed = decoder.with_error(header, frame, RETRIABLE_ERRORS[rule.error])
            case "alter":
                changed = decoder.with_altered_byte(header, frame, rule.side, (rule.topic, rule.partition), rule.byte)
            case "stale":
                changed = decoder.with_former_leaders(header, frame, self.context.metadata.get(exchange.metadata_query))
        return None if changed is None else (changed,)

    def line(self, exchange: Exchange) -> dict[str, Any]:
        """An exchange as a line of the trace."""
        header, contents = exchange.header, exchange.contents
        line: dict[str, Any] = {
            "ns": exchange.asked_ns,
            "sender": self.peer,
            "node": self.node,
            "port": self.port,
            "connection": self.number,
            "api": header.name,
            "version": header.version,
            "correlation_id": header.correlation_id,
            "client_id": header.client_id,
            "bytes": exchange.size,
            "answered_ns": exchange.answered_ns,
            "answer_bytes": exchange.answer_size,
        }
        if contents is not None:
            if contents.partitions:
                line["partitions"] = contents.partitions[:_MOST_TRACED]
            if contents.transactional_ids:
                line["transactional_ids"] = contents.transactional_ids[:_MOST_TRACED]
            if contents.leader_epochs:
                epochs = list(contents.leader_epochs.items())[:_MOST_TRACED]
                line["leader_epochs"] = [[topic, partition, epoch] for (topic, partition), epoch in epochs]
            if contents.detail:
                line["detail"] = contents.detail
            if contents.body is not None and self._traces_all(header):
                line["request"], line["answer"] = contents.body, exchange.answer
        if exchange.errors:
            line["errors"] = exchange.errors
        if exchange.fault:
            line["fault"] = exchange.fault
        return line

"""Requests as a sequence diagram: one column per sender and node, time from top to bottom, one line per event.

Guarantee: a picture of at most `MOST` requests; what is left out is said. Times are written, not drawn to scale: a wait
of seconds and an answer within a millisecond both fit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from kafka_chaos.harness.report.inputs.trace import Traced
from kafka_chaos.harness.report.pages import shapes
from kafka_chaos.harness.report.svg import duration

MOST = 40
AROUND = 12
"""Requests that a diagram of a fault shows at most."""

_AHEAD = 5_000


@dataclass(frozen=True, slots=True)
class _Event:
    """Something that is drawn on a line of its own: an arrow that arrives (or not), with its words."""

    at: float
    origin: str
    goal: str
    words: str
    is_answer: bool
    hit: bool
    arrives: bool


def draw(requests: Sequence[Traced], title: str, *, alone: bool = False) -> Markup:
    """The diagram of these requests; `alone`: as a file of its own, with its style."""
    shown = requests[:MOST]
    events = sorted((event for traced in shown for event in _events(traced)), key=lambda event: event.at)
    names = sorted({name for event in events for name in (event.origin, event.goal)}, key=_place_of)
    drawn: str = shapes("sequence").sequence(events, names, title, _description(shown, len(requests)), alone)
    return Markup(drawn.strip())


def style_sheet() -> Markup:
    """The style of diagrams within a page."""
    return Markup(shapes("sequence").style())


def around_faults(requests: Sequence[Traced], most: int) -> list[tuple[str, list[Traced]]]:
    """For the first `most` requests that faults hit: a title, and the request with its neighbours.

    Neighbours have the same API and speak of the same transaction, group or partitions; else they share the connection.
    Of a rule that hit many, the first one stands for all.
    """
    found: list[tuple[str, list[Traced]]] = []
    rules = set()
    for number, hit in enumerate(requests):
        if hit.fault is None or hit.fault.rule in rules or len(found) == most:
            continue
        rules.add(hit.fault.rule)
        before = [one for one in requests[max(0, number - 500) : number] if _related(one, hit)][-2:]
        later = [one for one in requests[number + 1 : number + _AHEAD] if _related(one, hit)]
        words = ", ".join(filter(None, (f"{hit.api} of {hit.sender} to {hit.node}", hit.about, hit.fault.described)))
        found.append((words, [*before, hit, *_near(hit, later)]))
    return found


def _near(hit: Traced, later: list[Traced]) -> list[Traced]:
    """The exchanges that followed, and those under way when the waiting one went on."""
    until = hit.fault.until if hit.fault is not None else None
    if until is None:
        return later[:AROUND]
    meanwhile = [one for one in later if one.asked < until]
    since = [one for one in later if one.asked >= until]
    few = AROUND // 3
    return [*meanwhile[:few], *meanwhile[max(few, len(meanwhile) - few) :], *since[:few]]


def _related(one: Traced, hit: Traced) -> bool:
    if hit.transactional_ids:
        return bool(set(one.transactional_ids) & set(hit.transactional_ids)) and one.sender == hit.sender
    if one.api != hit.api:
        return False
    if hit.partitions:
        return bool(set(one.partitions) & set(hit.partitions)) and one.sender == hit.sender
    return one.connection == hit.connection


def _events(traced: Traced) -> Iterable[_Event]:
    name = f"{traced.api} {traced.about}".rstrip()
    fault, there, back = traced.fault, (traced.sender, traced.node), (traced.node, traced.sender)
    side, until, cut = (fault.side, fault.until, fault.action == "cut") if fault is not None else (None, None, False)
    hint = f" ({fault.described})" if fault is not None else ""
    if side == "request":
        yield _Event(traced.asked, *there, name + hint, False, hit=True, arrives=until is None and cut)
        if until is not None:
            yield _Event(until, *there, f"{name} arrives", False, hit=True, arrives=True)
    else:
        yield _Event(traced.asked, *there, name, False, hit=False, arrives=True)
    if traced.answered is None:
        return
    errors = "".join(f", error {code}" for code in traced.errors)
    answer = f"{traced.api} answered after {duration((traced.answered - traced.asked) * 1e9)}{errors}"
    if side == "response":
        yield _Event(traced.answered, *back, answer + hint, True, hit=True, arrives=False)
        if until is not None:
            yield _Event(until, *back, f"{traced.api} answer arrives", True, hit=True, arrives=True)
    else:
        yield _Event(traced.answered, *back, answer, True, hit=False, arrives=True)


def _place_of(name: str) -> tuple[int, str]:
    """Clients on the left, then controllers, then brokers."""
    return (0 if name == "clients" else 1 if name.startswith("controller") else 2), name


def _description(shown: Sequence[Traced], total: int) -> str:
    lines = [f"{one.asked:.3f} s: {one.sender} to {one.node}: {one.api} {one.about}".rstrip() for one in shown]
    more = [f"{total - len(shown)} more are left out"] if total > len(shown) else []
    return "; ".join([*lines, *more])

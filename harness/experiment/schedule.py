"""Draws the parts of an experiment that its file leaves to the seed, under keys called `generate`.

It draws the faults of a phase with their targets and times, the version and mode of the cluster, the clients of lanes
with their configs, and the `lives` of further clients, which come and go amid the load.

Guarantee: the same seed, phase and bounds give the same schedule; no more brokers are broken at once than `breaks`
allows; and all faults are healed before the load ends. A run writes the drawn schedule into its experiment.yaml, which
replays exactly that schedule. The values of the file are not checked yet when this module reads them. Wrong values stay
as they are, because the experiment's own check refuses them later and names their place.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, ValidationError, model_validator

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.faults.fault import can_go_together, defaults, fits
from kafka_chaos.faults.registry import fault_kind
from kafka_chaos.faults.target import CLIENT_ROLES, Target, TargetError
from kafka_chaos.harness.clients.kinds import IN_PROCESS, ROLES, has_kafka_config_names, parse_client
from kafka_chaos.harness.cluster.containers.versions import parse_cluster
from kafka_chaos.harness.experiment.cluster_spec import ClusterSpec
from kafka_chaos.harness.experiment.lane_specs import WorkloadSpec
from kafka_chaos.harness.experiment.lives import GenerateLives
from kafka_chaos.harness.experiment.specs import ExperimentError, dotted, with_phases
from kafka_chaos.harness.experiment.timings import DURATION_FACTORS, timeouts_for_faults
from kafka_chaos.harness.experiment.values import Place, Seconds, Spec, TimeSpan, refusals

_DEFAULT_DURATION = WorkloadSpec().duration
_DEFAULT_BROKERS = ClusterSpec().brokers
_LARGEST_NUMBER = 1e9  # a larger number in the file is not used for drawing
_ATTEMPTS = 20  # how often a schedule is drawn at most, if too few faults fit into the load

S = TypeVar("S", bound=Spec)


class GenerateSpec(Spec):
    """The key `generate` of a `schedule`: the bounds within which a phase's faults are drawn."""

    faults: tuple[str, ...] = Field(min_length=1, strict=False, description="fault kinds to draw from")
    targets: tuple[str, ...] = Field(min_length=1, strict=False, description="targets to draw from")
    weights: dict[str, Annotated[float, Field(gt=0)]] = Field(
        default_factory=dict, description="relative frequencies of kinds, targets, clusters and clients; 1 by default"
    )
    count: int | None = Field(default=None, ge=1, le=20, description="how many faults; as many as fit by default")
    first_at: Seconds = Field(default=2.0, description="seconds of load before the first fault, at least")
    duration: TimeSpan = Field(
        default=(1.0, 8.0), strict=False, description="shortest and longest duration of a fault, in seconds"
    )
    gap: TimeSpan = Field(
        default=(2.0, 5.0),
        strict=False,
        description="shortest and longest time between a fault's end and the next fault, in seconds; with `breaks`, "
        "between the starts of two faults",
    )
    breaks: Literal["one", "minority", "any"] | None = Field(
        default=None,
        description="faults may overlap, as long as no more brokers than this are broken at once; by default, a fault "
        "begins when the one before is healed",
    )
    around_timeouts: bool = Field(
        default=False,
        description="draw durations around the time-outs of sessions, lags, requests, records, transactions, groups: "
        "just below a time-out, above it, or up to twice as long, within `duration`",
    )
    keys: dict[str, Annotated[tuple[str | int | float, ...], Field(min_length=1, strict=False)]] = Field(
        default_factory=dict,
        description="for further keys of faults, such as `api`: values to draw from, if the fault kind has the key",
    )
    clusters: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="versions and modes of the cluster to draw from, such as `4.3.1/kraft`; fault kinds that the "
        "drawn cluster does not support are left out",
    )
    clients: tuple[str, ...] = Field(
        default=(),
        strict=False,
        description="clients to draw from for each lane without `client`, as far as they support what the lane needs",
    )
    producer_configs: tuple[dict[str, Any], ...] = Field(
        default=(),
        strict=False,
        description="further producer configs to draw from for each lane whose client is librdkafka or Java's; the "
        "lane's own configs override them",
    )
    quiet_end: Seconds = Field(default=0.0, description="seconds without faults at the end of the load, at least")

    @model_validator(mode="after")
    def _check(self) -> Self:
        checks: dict[str, Callable[[str], object]] = {
            "faults": fault_kind,
            "clusters": parse_cluster,
            "clients": parse_client,
        }
        for name, raise_if_wrong in checks.items():
            for text in getattr(self, name):
                try:
                    raise_if_wrong(text)
                except (ValueError, UsageFailure) as error:
                    raise ValueError(f"{name}: {error}") from error
        fields = {name for kind in self.faults for name in defaults(fault_kind(kind))}
        for key in self.keys:
            if key not in fields:
                raise ValueError(f"keys: none of {', '.join(self.faults)} has the key {key!r}")
        names = (*self.faults, *self.targets, *self.clusters, *self.clients)
        for name in self.weights:
            if name not in names:
                raise ValueError(f"weights: {name!r} is never drawn: expected one of {', '.join(names)}")
        return self

    def draw(
        self, *, seed: int, phase: str, load_seconds: float, brokers: int, timeouts: Iterable[float] = ()
    ) -> list[dict[str, Any]]:
        """Draw the entries of a schedule. Raises `ValueError` if fewer than `count` faults fit into the load, or none.

        `timeouts`: the seconds around which durations are drawn, with `around_timeouts`.
        """
        # A text as seed gives the same numbers on every machine and in every version of Python.
        rng = random.Random(f"{seed}/{phase}")
        shortest, longest = self.duration
        multiples = [factor * timeout for timeout in timeouts for factor in DURATION_FACTORS]
        near_timeouts = [seconds for seconds in multiples if self.around_timeouts and shortest <= seconds <= longest]
        least = self.count or 1
        # Long faults may leave no time for the last faults: then all are drawn again.
        for _ in range(_ATTEMPTS):
            entries = self._entries(rng, load_seconds, brokers, near_timeouts)
            if len(entries) >= least:
                return entries
        raise ValueError(
            f"only {len(entries)} of {least} faults fit into a load of {load_seconds:g} s: lengthen "
            "workload.duration, or shorten duration, gap, first_at or quiet_end"
        )

    def _entries(
        self, rng: random.Random, load_seconds: float, brokers: int, near_timeouts: Sequence[float]
    ) -> list[dict[str, Any]]:
        """Draw entries of a schedule, up to `count`, as long as they fit into the load.

        `near_timeouts`: the durations to draw from, in seconds; if empty, any within `duration` is drawn.
        """
        budget = _Budget(self.breaks, brokers, self.targets)
        entries: list[dict[str, Any]] = []
        at = self.first_at
        while self.count is None or len(entries) < self.count:
            drawn = {fault_kind(entry["fault"]) for entry in entries}
            kinds = [kind for kind in self.faults if all(can_go_together(fault_kind(kind), other) for other in drawn)]
            kind = self._choose(rng, kinds)
            targets = [target for target in self.targets if _fits(kind, target)]
            if not targets:
                raise ValueError(f"targets: none of {', '.join(self.targets)} is a target for {kind}")
            target = self._choose(rng, targets)
            duration, gap = round(rng.uniform(*self.duration), 1), round(rng.uniform(*self.gap), 1)
            if near_timeouts:
                duration = round(rng.choice(near_timeouts), 1)
            at = budget.first_moment(at, target)
            if at + duration > load_seconds - self.quiet_end:
                break
            keys_of_kind = defaults(fault_kind(kind))
            keys = {key: rng.choice(values) for key, values in self.keys.items() if key in keys_of_kind}
            entries.append({"fault": kind, "target": target, "at": round(at, 1), "duration": duration, **keys})
            budget.spend(at + duration, target)
            at += max(0.1, gap if self.breaks else duration + gap)
        return entries

    @property
    def cluster_weights(self) -> dict[str, float]:
        """The clusters to draw from, with their weights."""
        return {cluster: self.weights.get(cluster, 1.0) for cluster in self.clusters}

    def limited_to(self, cluster: Any) -> Self:
        """These bounds without the fault kinds that a cluster does not support. `cluster`: that key of the experiment.

        Raises `ValueError` if no kind is left.
        """
        try:
            layout = ClusterSpec.model_validate(cluster).as_layout()
        except ValidationError:
            return self
        possible = tuple(kind for kind in self.faults if fault_kind(kind).refusal(layout) is None)
        if not possible:
            raise ValueError(f"faults: {layout.described} supports none of {', '.join(self.faults)}")
        return self.model_copy(update={"faults": possible})

    def with_client(self, lane: Any, rng: random.Random) -> Any:
        """The keys of a lane, with a client and producer configs drawn where the lane leaves them open."""
        if not isinstance(lane, Mapping):
            return lane
        if "client" not in lane and self.clients:
            roles = {role for key, role in ROLES.items() if lane.get(key) is not None}
            clients = {name: parse_client(name) for name in self.clients}
            capable = [name for name, client in clients.items() if client is None or roles.issubset(client.kind.roles)]
            if not capable:
                raise ValueError(f"clients: none of {', '.join(self.clients)} can be a {' and '.join(roles)}")
            lane = lane_of_client(lane, self._choose(rng, capable))
        drawn = rng.choice(self.producer_configs or ({},))
        own = lane.get("producer_configs", {})
        if not drawn or not isinstance(own, Mapping) or not has_kafka_config_names(lane.get("client", IN_PROCESS)):
            return lane
        return {**lane, "producer_configs": {**drawn, **own}}

    def _choose(self, rng: random.Random, options: Sequence[str]) -> str:
        if not self.weights:
            return rng.choice(options)
        return rng.choices(options, [self.weights.get(option, 1.0) for option in options])[0]


def lane_of_client(lane: Mapping[str, Any], client: str) -> dict[str, Any]:
    """The keys of a lane with this client.

    An idempotent lane whose client can't have five requests in flight, the default, gets the most that it can have.
    """
    chosen_client = parse_client(client)
    lane = {"client": client, **lane}
    is_idempotent = any(lane.get(key) not in (None, False) for key in ("idempotence", "transactional", "loop"))
    if chosen_client is not None and is_idempotent and 5 not in chosen_client.kind.idempotent_in_flight:
        lane.setdefault("max_in_flight", max(chosen_client.kind.idempotent_in_flight))
    return lane


def _fits(kind: str, target: str) -> bool:
    try:
        return fits(fault_kind(kind), Target.parse(target))
    except TargetError:
        # The check of the whole experiment refuses the target, and names its place.
        return True


class _Budget:
    """The number of brokers that are broken at each moment, and the most that `breaks` allows."""

    def __init__(self, breaks: str | None, brokers: int, targets: Iterable[str]) -> None:
        self._brokers = brokers
        self._most_broken = {"one": 1, "minority": (brokers - 1) // 2}.get(breaks or "any", float("inf"))
        self._spent: list[tuple[float, int]] = []
        for target in targets:
            if self._hits(target) > self._most_broken:
                raise ValueError(
                    f"targets: {target} may break {self._hits(target)} of {brokers} brokers: `breaks: {breaks}` allows "
                    f"{self._most_broken}"
                )

    def first_moment(self, at: float, target: str) -> float:
        """The first moment from `at` on at which a fault of this target breaks no more brokers than allowed."""
        while True:
            ongoing = [(end, hits) for end, hits in self._spent if end > at]
            if sum(hits for _, hits in ongoing) + self._hits(target) <= self._most_broken:
                return at
            at = min(end for end, _ in ongoing)

    def spend(self, until: float, target: str) -> None:
        """Note that a fault breaks this target up to the moment `until`."""
        self._spent.append((until, self._hits(target)))

    def _hits(self, target: str) -> int:
        try:
            parsed = Target.parse(target)
        except TargetError:
            return 0
        if parsed.role in CLIENT_ROLES:
            return 0
        # A target without brokers is ZooKeeper or controllers: if it is broken, any broker may lose its session.
        return parsed.brokers_hit(self._brokers) or self._brokers


def expand(values: Mapping[str, Any]) -> dict[str, Any]:
    """An experiment's values, with drawn schedules and lives in place of each `schedule` or `lives` with `generate`.

    In the result, every key of a phase is inside its phase. Raises `ExperimentError` with the place of a wrong bound.
    """
    expanded = with_phases(values)
    phases = expanded["phases"]
    if not isinstance(phases, list):
        return expanded
    bounds_by_phase = {
        number: _bounds(phase["schedule"], ("phases", number, "schedule"), GenerateSpec, "faults")
        for number, phase in enumerate(phases)
        if isinstance(phase, Mapping) and isinstance(phase.get("schedule"), Mapping)
    }
    _draw_cluster(expanded, [(bounds, place) for bounds, place in bounds_by_phase.values() if bounds.clusters])
    for number, phase in enumerate(phases):
        if isinstance(phase, Mapping):
            if number in bounds_by_phase:
                phase = _with_schedule(phase, *bounds_by_phase[number], expanded)
            if isinstance(phase.get("lanes"), list):
                place = "phases", number, "lanes"
                lanes = [_with_lives(lane, (*place, i), expanded, phase) for i, lane in enumerate(phase["lanes"])]
                phase = {**phase, "lanes": lanes}
            phases[number] = phase
    return expanded


def _draw_cluster(values: dict[str, Any], all_bounds: Sequence[tuple[GenerateSpec, Place]]) -> None:
    """Draw the version and mode of the cluster, which all phases share, if the bounds of a phase have `clusters`.

    `all_bounds`: the bounds that have `clusters`, each with its place in the file.
    """
    if not all_bounds:
        return
    first, _ = all_bounds[0]
    for bounds, place in all_bounds[1:]:
        if bounds.cluster_weights != first.cluster_weights:
            expected = f"expected {', '.join(first.clusters)}, with the same weights as in an earlier phase"
            raise ExperimentError((*place, "clusters"), f"{expected}: all phases run on one cluster")
    if isinstance(values.get("cluster"), Mapping | None):
        rng = random.Random(f"{_seed(values)}/cluster")
        values["cluster"] = {**(values.get("cluster") or {}), **parse_cluster(first._choose(rng, first.clusters))}


def _with_lives(lane: Any, place: Place, values: dict[str, Any], phase: Mapping[str, Any]) -> Any:
    """The keys of a lane, with drawn lives if the lane has bounds for them."""
    if not isinstance(lane, Mapping) or not isinstance(lane.get("lives"), Mapping):
        return lane
    bounds, place = _bounds(lane["lives"], (*place, "lives"), GenerateLives, "lives")
    with _refused_at(place):
        drawn = bounds.draw(seed=_seed(values), lane=str(lane.get("lane")), load_seconds=_load_seconds(phase))
    return {**lane, "lives": drawn}


def _with_schedule(
    phase: Mapping[str, Any], bounds: GenerateSpec, place: Place, values: dict[str, Any]
) -> Mapping[str, Any]:
    """The keys of a phase, with its schedule and the clients and configs of its lanes drawn within these bounds."""
    seed, name, lanes = _seed(values), str(phase.get("phase")), phase.get("lanes")
    cluster = values.get("cluster")
    with _refused_at(place):
        if bounds.clusters:
            bounds = bounds.limited_to(cluster)
        if isinstance(lanes, list):
            rng = random.Random(f"{seed}/{name}/clients")
            lanes = [bounds.with_client(lane, rng) for lane in lanes]
            phase = {**phase, "lanes": lanes}
        schedule = bounds.draw(
            seed=seed,
            phase=name,
            load_seconds=_load_seconds(phase),
            brokers=int(_number(cluster, "brokers", _DEFAULT_BROKERS)) or _DEFAULT_BROKERS,
            timeouts=timeouts_for_faults(lanes, cluster) if bounds.around_timeouts else (),
        )
    return {**phase, "schedule": schedule}


@contextmanager
def _refused_at(place: Place) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ExperimentError(place, str(error)) from error


def _bounds(values: Mapping[str, Any], place: Place, kind: type[S], plural: str) -> tuple[S, Place]:
    """The value of the key `generate`, and its place; raises `ExperimentError`. `plural` names what is drawn."""
    if list(values) != ["generate"]:
        keys = ", ".join(dotted((key,)) for key in values) or "nothing"
        raise ExperimentError(place, f"expected a list of {plural}, or the one key generate, got {keys}")
    place = (*place, "generate")
    try:
        return kind.model_validate(values["generate"]), place
    except ValidationError as error:
        inner, message = refusals(error, kind)[0]
        raise ExperimentError((*place, *inner), message) from None


def _seed(values: dict[str, Any]) -> int:
    """The experiment's seed, which is drawn and set if there is none."""
    seed = values.setdefault("seed", random.SystemRandom().randrange(2**31))
    return seed if isinstance(seed, int) and not isinstance(seed, bool) else 0


def _load_seconds(phase: Mapping[str, Any]) -> float:
    return _number(phase.get("workload"), "duration", _DEFAULT_DURATION)


def _number(values: object, key: str, default: float) -> float:
    """The number under a key of a mapping, or the default if there is no valid number."""
    value = values.get(key) if isinstance(values, Mapping) else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LARGEST_NUMBER
    return float(value) if is_number and value is not None else default

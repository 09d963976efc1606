"""The key `lives` of a lane: clients that come and go, each with its start, its end, and its successor."""

import math
import random
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from kafka_chaos.harness.experiment.values import Seconds, Spec, TimeSpan, checked_span

KILL: Literal["kill"] = "kill"
LEAVE: Literal["leave"] = "leave"
End = Literal["kill", "leave"]
PRODUCER: Literal["producer"] = "producer"
CONSUMER: Literal["consumer"] = "consumer"
Role = Literal["producer", "consumer"]
_SHORTEST = 0.5  # seconds
_Lengths = Annotated[tuple[Annotated[float, Field(ge=_SHORTEST)], Seconds], AfterValidator(checked_span)]


class LifeSpec(Spec):
    """An entry of a lane's `lives`: further clients of the lane. Brokers know nothing of them until they start."""

    role: Role = Field(
        default=PRODUCER,
        description="what the clients are: each `producer` writes to one partition only, the next producer to the next "
        "partition; each `consumer` reads the whole topic from its start",
    )
    count: int = Field(default=1, ge=1, le=100, description="how many clients")
    at: Seconds = Field(description="when the clients start, in seconds after the load began")
    lasts: Seconds | None = Field(
        default=None, ge=_SHORTEST, description="how many seconds each client lives; by default, as long as the load"
    )
    ends: End = Field(
        default=LEAVE,
        description="how a client ends before the load does: with `leave` it is closed properly, a producer once every "
        "record has an outcome; with `kill` it is gone at once",
    )
    returns: Seconds | None = Field(
        default=None,
        description="seconds after a client's end until another client takes its place, with the same `client.id`, and "
        "lives as long; by default, no client does",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.lasts is None and self.returns is not None:
            raise ValueError("returns: expected none without lasts: a client that never ends is not replaced")
        return self


class GenerateLives(Spec):
    """The key `generate` of `lives`: lives drawn from the experiment's seed."""

    count: int = Field(default=3, ge=1, le=100, description="how many clients")
    roles: tuple[Role, ...] = Field(default=(PRODUCER,), min_length=1, strict=False, description="roles to draw from")
    first_at: Seconds = Field(default=2.0, description="seconds of load before the first client starts, at least")
    lasts: _Lengths = Field(default=(1.0, 8.0), strict=False, description="shortest and longest life, in seconds")
    ends: tuple[End, ...] = Field(
        default=(KILL, LEAVE), min_length=1, strict=False, description="ends of lives to draw from"
    )
    returns: TimeSpan | None = Field(
        default=(0.5, 4.0),
        strict=False,
        description="shortest and longest time until another client takes the place; null: no client does",
    )

    def draw(self, *, seed: int, lane: str, load_seconds: float) -> list[dict[str, Any]]:
        """Draw entries of `lives`; raises `ValueError` if the load is too short for them."""
        if self.first_at >= load_seconds:
            raise ValueError(f"first_at: {self.first_at:g} s is past the load of {load_seconds:g} s")
        rng = random.Random(f"{seed}/{lane}/lives")
        return [
            {
                # Rounded down: a life can't start when the load has ended.
                "at": max(self.first_at, math.floor(10 * rng.uniform(self.first_at, load_seconds)) / 10),
                "lasts": round(rng.uniform(*self.lasts), 1),
                "ends": rng.choice(self.ends),
                **({} if self.returns is None else {"returns": round(rng.uniform(*self.returns), 1)}),
                # A single role is not drawn: drawing it would change the lives that existing seeds give.
                "role": rng.choice(self.roles) if len(self.roles) > 1 else self.roles[0],
            }
            for _ in range(self.count)
        ]

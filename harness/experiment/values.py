"""What the parts of an experiment share: how a mapping of keys is read, and seconds."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, le=1_000_000, strict=False, allow_inf_nan=False)]


class Spec(BaseModel):
    """A mapping of keys: unknown ones are refused, and no text becomes a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

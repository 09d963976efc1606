"""What the parts of an experiment share: how a mapping of keys is read, seconds and names."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(ge=0, le=1_000_000, strict=False, allow_inf_nan=False)]
_NAME = re.compile(r"[a-zA-Z0-9._-]{1,200}")


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError("expected letters, digits, '.', '_' and '-' (a Kafka topic name)")
    return value


Name = Annotated[str, AfterValidator(_name)]


class Spec(BaseModel):
    """A mapping of keys: unknown ones are refused, and no text becomes a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

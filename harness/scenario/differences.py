"""Where a seed document says one thing and the brokers do another: the brokers win, and the page says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """What a document says, what the brokers do instead, since which version, and the scenario that shows it.

    `shown_by` is a scenario's id; None where nothing that is played shows it, and `brokers_do` says where it is from.
    """

    document: str
    says: str
    brokers_do: str
    since: str
    shown_by: str | None

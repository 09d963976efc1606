"""The kinds of clients: which there are, what each can do, and how one is started.

Written `NAME` or `NAME VERSION`, such as `java 3.9.1`; `librdkafka` without a version runs in process, as the harness's
own client.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.errors import MOST_QUOTED, EnvironmentFailure, UsageFailure, quoted
from kafka_chaos.contract.command.files import toml_of
from kafka_chaos.harness.clients.fetching import (
    MANAGERS,
    Manager,
    fetch,
    filled,
    folder_of,
    no_answer,
    prepare,
    required,
)
from kafka_chaos.harness.clients.java_client import java_client_configs

IN_PROCESS = "librdkafka"
OWN = "own"
"""The name in lanes.json of a client that is a command of the user's."""
_OF_PYTHON = "kafka_chaos.harness.clients.python_client"
_WRITTEN = re.compile(r"(?P<name>[\w-]+)(?:[ :](?P<version>\d+(?:\.\d+)*))?")

TRANSACTIONAL, MEMBER, LOOP = "transactional producer", "member of a group", "loop"
SHARER = "member of a share group"
_OF_ALL = ("producer", "idempotent producer", "consumer", TRANSACTIONAL)
ROLES: Mapping[str, str] = {"transactional": TRANSACTIONAL, "group": MEMBER, "loop": LOOP, "share": SHARER}
"""The role that a client needs for each key of a lane."""

Say = Callable[[str], None]
Secured = Callable[[Mapping[str, str]], Mapping[str, str]]


_SECURED: Mapping[str, Secured] = {"librdkafka": dict, "java": java_client_configs}


@dataclass(frozen=True, kw_only=True)
class ClientKind:
    """A client library, as clients.toml describes it. `version`: the usual one. `sources`: the files of its adapter.

    `manager` fetches its `package`. `roles`: what it can be; the file has only those that not all clients can be.
    `idempotent_in_flight`: how many requests an idempotent producer may have in flight. `of_groups`: by key of a
    `group`, the values that its members can have; `assigned_by_brokers_since`: the first version whose members can
    have the protocol `consumer` (KIP-848). `separator`: of the words in the names of its configs. `secured`:
    translates librdkafka's keys for a secured listener; None where the client can't connect to one. In the file, that
    is the client whose keys it has. `timeouts`: its usual time-outs, in milliseconds.
    """

    name: str
    version: str
    manager: Manager
    package: str = ""
    sources: Sequence[str] = ()
    roles: Sequence[str] = _OF_ALL
    idempotent_in_flight: Sequence[int] = range(1, 6)
    of_groups: Mapping[str, Sequence[str]] = field(default_factory=dict)
    assigned_by_brokers_since: list[int] | None = None
    has_configs: bool = True
    separator: str = "."
    secured: Secured | None = None
    timeouts: Mapping[str, int] = field(default_factory=dict)

    def lacks(self) -> list[str]:
        """The programs that the client needs and this machine lacks: for each, what to install."""
        found = []
        for program in self.manager.needs:
            try:
                required(program)
            except EnvironmentFailure as failure:
                found.append(str(failure))
        return found


def _kind(name: str, manager: str, further_roles: Sequence[str] = (), secured: str = "", **keys: Any) -> ClientKind:
    """The client of an entry of clients.toml."""
    roles = (*_OF_ALL, *further_roles)
    return ClientKind(name=name, manager=MANAGERS[manager], roles=roles, secured=_SECURED.get(secured), **keys)


KINDS = {name: _kind(name, **entry) for name, entry in toml_of(__package__, "clients.toml").items()}


@dataclass(frozen=True)
class ChosenClient:
    """A kind of client in a version."""

    kind: ClientKind
    version: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.version}"

    @property
    def folder(self) -> Path:
        """Where the client is, or will be once it is fetched."""
        return folder_of(self.kind.name, self.version, self.kind.sources)

    def unconfirmed(self) -> str:
        """Why it is not known whether there is such a version; nothing if there is one.

        Raises `UsageFailure` if there is none. Asks the registry, unless it is fetched already or the usual version.
        """
        if self.version == self.kind.version or self.folder.is_dir():
            return ""
        return no_answer(str(self), filled(self.kind.manager.asks, self.kind.package, self.version))

    def fetch(self, say: Say = lambda _: None) -> Path:
        """Fetch and compile the client, unless it is there; returns its folder. See `fetching` for what is raised."""
        folder = self.folder
        if not folder.is_dir():
            say(f"fetching the client {self}")
            prepare(folder, self.kind.sources, partial(fetch, self.kind.manager, self.kind.package, self.version))
        return folder

    @cached_property
    def command(self) -> list[str]:
        """The command that starts the client, which is fetched now if it is not there."""
        if starts := self.kind.manager.starts:
            program, *words = filled(starts, folder=self.fetch(), name=self.kind.name)
            return [required(program), *words]
        return command_of(_OF_PYTHON, self.kind.name, packages=self._packages)

    @property
    def packages(self) -> Path | None:
        """The folder from which a program can import this version of librdkafka; None for another client."""
        return self._packages if self.kind.name == IN_PROCESS else None

    @property
    def _packages(self) -> Path:
        return next(self.fetch().glob("venv/lib/python*/site-packages"))


@dataclass(frozen=True)
class OwnClient:
    """A client of the user's own, which speaks the client protocol. `command`: the words of the command."""

    command: Sequence[str]
    version: str = ""
    kind: ClassVar[ClientKind] = ClientKind(name=OWN, version="", manager=Manager(), secured=dict)

    def __str__(self) -> str:
        return f"of the command {self.command[0]}"

    packages: ClassVar[None] = None

    def fetch(self, say: Say = lambda _: None) -> Path:
        """The path of its program. Raises `EnvironmentFailure` if there is none."""
        return Path(required(self.command[0]))


def lacking(clients: Iterable[str]) -> dict[str, str]:
    """The clients among these that this machine can't run, with the programs that it lacks for each."""
    known = {text: parse_client(text) for text in clients}
    lacks = {text: "; ".join(client.kind.lacks()) for text, client in known.items() if client is not None}
    return {text: programs for text, programs in lacks.items() if programs}


def parse_client(text: str | Sequence[str]) -> ChosenClient | OwnClient | None:
    """The client that a text names, or that a command starts; None for the harness's own client, in its process.

    Raises `UsageFailure`, with the nearest names, if no client has the name.
    """
    if not isinstance(text, str):
        return OwnClient(tuple(text))
    found = _WRITTEN.fullmatch(text)
    if found is None or found["name"] not in KINDS:
        near = get_close_matches(re.split("[ :]", text)[0][:MOST_QUOTED], KINDS, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        expected = f"expected {', '.join(KINDS)}, with a version or without, such as java 3.9.1"
        raise UsageFailure(f"{quoted(text)} is no client: {expected}{hint}")
    kind = KINDS[found["name"]]
    if found["version"] is None and kind.name == IN_PROCESS:
        return None
    return ChosenClient(kind, found["version"] or kind.version)


def has_kafkas_names(client: str | Sequence[str]) -> bool:
    """Whether the configs of a client have the names that librdkafka and Kafka's own client share."""
    known = parse_client(client)
    return known is None or known.kind.name in (IN_PROCESS, "java")


def fetched(clients: Iterable[str | tuple[str, ...]], say: Say) -> None:
    """Fetch these clients. Raises `UsageFailure` before anything is fetched, if one of them is no client."""
    for client in [parse_client(text) for text in dict.fromkeys(clients)]:
        if client is not None:
            client.fetch(say)

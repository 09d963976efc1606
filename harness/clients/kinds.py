"""The kinds of clients that produce and consume in a run: what each can do, and how it is started.

A client is written `NAME` or `NAME VERSION`, such as `java 3.9.1`. `librdkafka` without a version is the in-process
client; any other is a process of its own.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

from kafka_chaos.contract.command.child import command_of
from kafka_chaos.contract.command.errors import MOST_QUOTED, EnvironmentFailure, UsageFailure, quoted
from kafka_chaos.contract.command.files import cache_home, package_toml
from kafka_chaos.harness.clients import fetching
from kafka_chaos.harness.clients.java_client import java_client_configs

IN_PROCESS = "librdkafka"
USERS_OWN = "own"
"""The name in lanes.json of a user's own client, which the experiment names by its command."""
_PYTHON_CLIENT = "kafka_chaos.harness.clients.python_client"
_CLIENT_NAME = re.compile(r"(?P<name>[\w-]+)(?:[ :](?P<version>\d+(?:\.\d+)*))?")

TRANSACTIONAL, MEMBER, LOOP = "transactional producer", "member of a group", "loop"
SHARER = "member of a share group"
_COMMON_ROLES = ("producer", "idempotent producer", "consumer", TRANSACTIONAL)
ROLES: Mapping[str, str] = {"transactional": TRANSACTIONAL, "group": MEMBER, "loop": LOOP, "share": SHARER}
"""For each of these keys of a lane: the role that the lane's client needs if the lane has the key."""

Say = Callable[[str], None]  # tells the user what happens
KeyTranslation = Callable[[Mapping[str, str]], Mapping[str, str]]  # from librdkafka's keys to a client's own
_KEY_TRANSLATIONS: Mapping[str, KeyTranslation] = {"librdkafka": dict, "java": java_client_configs}


@dataclass(frozen=True, kw_only=True)
class ClientKind:
    """A client library, as clients.toml describes it. `version`: the default if an experiment names none.

    `manager` fetches the `package`. `sources`: the source files of its adapter, a program that speaks the client
    protocol. `roles`: what it can be. `idempotent_in_flight`: the numbers of requests in flight that it allows with
    idempotence. `group_settings`: by key of a lane's `group`, the values that its members can have.
    `assigned_by_brokers_since`: the first version whose members can have the protocol `consumer` (KIP-848).
    `served_by_4_since`: the first one that brokers of 4.0 and later serve; `needs_2_1_since`: the first one that needs
    brokers of 2.1 (both KIP-896).
    `has_configs`: whether it takes configs by name; `separator` joins the words of a name. `translate_keys`: translates
    librdkafka's keys for a secured listener; None if the client can't connect to such a listener. `timeouts`: its usual
    time-outs, as fields of `Timings` (contract/lane/recovery.py).
    """

    name: str
    version: str
    manager: fetching.Manager
    package: str = ""
    sources: Sequence[str] = ()
    roles: Sequence[str] = _COMMON_ROLES
    idempotent_in_flight: Sequence[int] = range(1, 6)
    group_settings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    assigned_by_brokers_since: list[int] | None = None
    served_by_4_since: list[int] | None = None
    needs_2_1_since: list[int] | None = None
    has_configs: bool = True
    separator: str = "."
    translate_keys: KeyTranslation | None = None
    timeouts: Mapping[str, int] = field(default_factory=dict)

    def install_hints(self) -> list[str]:
        """What to install: a message for each program that the client needs and this machine lacks."""
        messages = []
        for program in self.manager.needs:
            try:
                fetching.program_path(program)
            except EnvironmentFailure as failure:
                messages.append(str(failure))
        return messages


def _kind(name: str, manager: str, further_roles: Sequence[str] = (), secured: str = "", **keys: Any) -> ClientKind:
    """The `ClientKind` of an entry of clients.toml. `secured`: whose security keys it takes; empty: it takes none."""
    keys |= {"roles": (*_COMMON_ROLES, *further_roles), "translate_keys": _KEY_TRANSLATIONS.get(secured)}
    return ClientKind(name=name, manager=fetching.MANAGERS[manager], **keys)


KINDS = {name: _kind(name, **entry) for name, entry in package_toml(__package__, "clients.toml").items()}


@dataclass(frozen=True)
class ChosenClient:
    """A kind of client in a version, or the user's own client, which speaks the client protocol.

    `own_command`: the words of the command line that starts the user's own client; else empty.
    """

    kind: ClientKind
    version: str
    own_command: Sequence[str] = ()

    def __str__(self) -> str:
        return self.own_command[0] if self.own_command else f"{self.kind.name} {self.version}"

    @property
    def folder(self) -> Path:
        """The folder that the client is in, once it is fetched. Its name changes with the sources of the adapter."""
        sources = b"".join((fetching.ADAPTERS / source).read_bytes() for source in self.kind.sources)
        digest = hashlib.sha256(sources).hexdigest()[:8]
        return cache_home() / "clients" / f"{self.kind.name}-{self.version}-{digest}"

    def why_unconfirmed(self) -> str:
        """Ask the registry whether the version exists; returns why no answer came, or "" if the version exists.

        Raises `UsageFailure` if it does not exist. The default version and fetched versions are taken to exist.
        """
        if self.version == self.kind.version or self.folder.is_dir():
            return ""
        question = fetching.fill_placeholders(self.kind.manager.asks, self.kind.package, self.version)
        return fetching.why_unanswered(str(self), question)

    def fetch(self, say: Say = lambda _: None) -> Path:
        """Fetch and compile the client, unless it is there; returns its folder. Raises as `fetching.py` says.

        For a user's own client, returns the path of its program.
        """
        if self.own_command:
            return Path(fetching.program_path(self.own_command[0]))
        if not self.folder.is_dir():
            say(f"fetching the client {self}")
            fetching.fetch(self.kind.manager, self.kind.package, self.version, self.folder, self.kind.sources)
        return self.folder

    @cached_property
    def command(self) -> list[str]:
        """The command that starts the client. Fetches the client if it is not there."""
        if self.own_command:
            return [*self.own_command]
        if starts := self.kind.manager.starts:
            program, *words = fetching.fill_placeholders(starts, folder=self.fetch(), name=self.kind.name)
            return [fetching.program_path(program), *words]
        return command_of(_PYTHON_CLIENT, self.kind.name, packages=self.packages)

    @property
    def packages(self) -> Path:
        """The folder from which a program can import this version of a Python library. Fetches the client."""
        return next(self.fetch().glob("venv/lib/python*/site-packages"))


def missing_programs(clients: Iterable[str]) -> dict[str, str]:
    """For each of these clients that this machine can't run: what to install."""
    parsed = {text: parse_client(text) for text in clients}
    missing = {text: "; ".join(client.kind.install_hints()) for text, client in parsed.items() if client is not None}
    return {text: programs for text, programs in missing.items() if programs}


def parse_client(text: str | Sequence[str]) -> ChosenClient | None:
    """The client that a text names, or that a command (a sequence of words) starts; None for the in-process client.

    Raises `UsageFailure`, with the nearest names, if no client has the name.
    """
    if not isinstance(text, str):
        own = ClientKind(name=USERS_OWN, version="", manager=fetching.Manager(), translate_keys=dict)
        return ChosenClient(own, own.version, tuple(text))
    parts = _CLIENT_NAME.fullmatch(text)
    if parts is None or parts["name"] not in KINDS:
        near = get_close_matches(re.split("[ :]", text)[0][:MOST_QUOTED], KINDS, n=3, cutoff=0.5)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        expected = f"expected {', '.join(KINDS)}, with a version or without, such as java 3.9.1"
        raise UsageFailure(f"{quoted(text)} is not a client: {expected}{hint}")
    kind = KINDS[parts["name"]]
    if parts["version"] is None and kind.name == IN_PROCESS:
        return None
    return ChosenClient(kind, parts["version"] or kind.version)


def has_kafka_config_names(client: str | Sequence[str]) -> bool:
    """Whether the configs of a client have the names that librdkafka and Kafka's own client share."""
    parsed = parse_client(client)
    return parsed is None or parsed.kind.name in (IN_PROCESS, "java")


def fetch_clients(clients: Iterable[str | tuple[str, ...]], say: Say) -> None:
    """Fetch these clients. Raises `UsageFailure` before anything is fetched, if one of them is not a client."""
    for client in [parse_client(text) for text in dict.fromkeys(clients)]:
        if client is not None:
            client.fetch(say)

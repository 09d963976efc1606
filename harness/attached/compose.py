"""Makes the file for `run --attach --nodes` from a Docker Compose file: its Kafka nodes, and commands to break them.

The images of Apache, Bitnami and Confluent are configured by environment variables, each named `KAFKA_` or
`KAFKA_CFG_` and a property's name. So the variables tell whether a service is a broker, and which id it has. The file
is read as Compose does, but without following `extends`, `include`, and other files (`docker-compose.override.yml`).
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment
from ruamel.yaml.comments import CommentedMap

from kafka_chaos.contract.command.errors import UsageFailure, first_of
from kafka_chaos.contract.command.files import package_text, text_of
from kafka_chaos.harness.cluster.containers.image import image_tag
from kafka_chaos.harness.experiment.file import line_of, one_line, parse_document
from kafka_chaos.harness.experiment.specs import dotted

Kind = Literal["brokers", "controllers", "zookeepers"]
_KAFKA_IMAGES = ("kafka", "kafka-native", "cp-kafka", "cp-server", "confluent-local")
_ZOOKEEPER_IMAGES = ("zookeeper", "cp-zookeeper")
_ZOOKEEPER_IDS = ("ZOO_MY_ID", "ZOO_SERVER_ID", "ZOOKEEPER_SERVER_ID")
"""The variables for the number of a ZooKeeper server in the official, in Bitnami's, and in Confluent's image."""
_REFERENCE = re.compile(
    r"\$(?:\$|(?P<plain>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)"
    r"(?:(?P<operator>:?[-?+])(?P<operand>(?:[^{}]|\{[^{}]*\})*))?\})"
)
"""A reference to a variable, such as `${TAG:-4.3.1}`, whose operand may contain references; or `$$`, a dollar sign."""


@dataclass(frozen=True, slots=True)
class ComposeNode:
    """A service that is a node of a Kafka cluster. `number`: its id, None if the file does not name it. `properties`:
    the Kafka properties that its variables set, with names such as `node_id`. `keys`: its keys in the file."""

    service: str
    kind: Kind
    number: int | None
    container: str
    properties: Mapping[str, str]
    keys: Mapping[str, Any]

    @property
    def addresses(self) -> list[str]:
        """The addresses advertised to clients outside of the Compose network: localhost, or a host with a dot."""
        return re.findall(r"://(localhost:\d+|[^:,]*\.[^:,]*:\d+)", self.properties.get("advertised_listeners", ""))


def nodes_file_text(path: Path, out: Path, project: str | None = None) -> str:
    """The text of a file of nodes for the Compose file `path`, to be written to `out`. `project`: as with Compose's -p.

    Raises `UsageFailure` with file and line if `path` is no Compose file, no broker's id is known, or ids repeat.
    """
    document, values = parse_document(text_of(path), str(path), "a Compose file")
    dotenv = path.parent / ".env"
    variables = {**(_variables_in(dotenv) if dotenv.is_file() else {}), **os.environ}
    nodes = _ComposeFile(path, document, values, variables).nodes(project)
    template = Environment(trim_blocks=True).from_string(package_text(__package__, "compose.yaml.jinja"))
    return template.render(file=path.name, out=out, nodes=nodes, image=image_tag()) + "\n"


@dataclass(frozen=True, slots=True)
class _ComposeFile:
    """A Compose file: a `document` with line numbers, its plain `values`, and the variables that it may refer to."""

    path: Path
    document: CommentedMap
    values: Mapping[str, Any]
    variables: Mapping[str, str]

    def nodes(self, project: str | None) -> list[ComposeNode]:
        """The nodes in the order of the file. Refuses a file in which no broker has an id, or two nodes share one."""
        services = self.values.get("services")
        if not isinstance(services, dict) or not all(isinstance(keys, dict) for keys in services.values()):
            raise self.refusal("expected a mapping of services", "services")
        own_name = self.interpolated(self.values.get("name", ""), "name")
        name = project or self.variables.get("COMPOSE_PROJECT_NAME") or own_name or self.path.absolute().parent.name
        # Compose makes the name of a project valid in this way.
        project = re.sub("[^a-z0-9_-]", "", name.lower()).lstrip("_-")
        nodes = [node for service in services if (node := self.node(service, project))]
        services_by_id: dict[tuple[bool, int | None], str] = {}
        for node in nodes:
            # Brokers and controllers must not share an id; ZooKeeper's servers have ids of their own.
            first = services_by_id.setdefault((node.kind == "zookeepers", node.number), node.service)
            if node.number is not None and first != node.service:
                raise self.refusal(f"the service {first} has the same id, {node.number}", "services", node.service)
        if not any(node.kind == "brokers" and node.number is not None for node in nodes):
            expected = "expected KAFKA_NODE_ID (with ZooKeeper KAFKA_BROKER_ID) in the `environment` of one of them"
            names = first_of([str(service) for service in services])
            raise self.refusal(f"no Kafka broker with a known id in {names}: {expected}", "services")
        return nodes

    def node(self, service: str, project: str) -> ComposeNode | None:
        """The Kafka or ZooKeeper node that a service runs; None if it runs neither."""
        keys = self.interpolated(self.values["services"][service], "services", service)
        variables = self.environment(keys, service)
        kafka = {name: value for name, value in variables.items() if name.startswith("KAFKA_")}
        properties = {re.sub("^KAFKA_(CFG_)?", "", name).lower(): value for name, value in kafka.items()}
        kind = _kind(keys, properties)
        if kind is None:
            return None
        ids = [properties.get(name, "") for name in ("node_id", "broker_id")]
        if kind == "zookeepers":
            # A ZooKeeper server that stands alone needs no number.
            ids = [variables.get(name, "") for name in _ZOOKEEPER_IDS] + ["1"]
        deploy = keys.get("deploy") or {}
        if not isinstance(deploy, dict):
            raise self.refusal("expected a mapping", "services", service, "deploy")
        # All replicas of a service have the same variables, so an id in the variables can't be the id of each.
        replicas = deploy.get("replicas") or keys.get("scale") or 1
        number = next((int(text) for text in ids if text.isdecimal() and str(replicas) == "1"), None)
        # Compose 1 joins the parts of a name by `_`, and so does Compose 2 if this variable asks for it.
        separator = "_" if self.variables.get("COMPOSE_COMPATIBILITY", "").lower() in ("1", "true") else "-"
        container = keys.get("container_name") or f"{project}{separator}{service}{separator}1"
        return ComposeNode(service, kind, number, container, properties, keys)

    def environment(self, keys: Mapping[str, Any], service: str) -> dict[str, str]:
        """The variables of a service: from its `env_file`, then from its own `environment`, which wins."""
        environment: dict[str, str] = {}
        files = keys.get("env_file") or []
        for file in files if isinstance(files, list) else [files]:
            path = file.get("path") if isinstance(file, dict) else file
            if not isinstance(path, str):
                raise self.refusal("expected the path of a file, or a list of paths", "services", service, "env_file")
            environment |= _variables_in(self.path.parent / path)
        own = keys.get("environment") or {}
        if isinstance(own, list):
            pairs = [str(variable).partition("=") for variable in own]
            own = {name: value if equals else None for name, equals, value in pairs}
        if not isinstance(own, dict):
            raise self.refusal("expected a mapping or a list of variables", "services", service, "environment")
        # A name without a value takes the value that Compose itself has for this variable, if there is one.
        values = {name: self.variables.get(name) if value is None else value for name, value in own.items()}
        return environment | {str(name): str(value) for name, value in values.items() if value is not None}

    def interpolated(self, value: Any, *keys: str) -> Any:
        """The value at `keys` in the file, with references replaced by their variables' values, as Compose does it."""
        if isinstance(value, dict):
            return {key: self.interpolated(entry, *keys, key) for key, entry in value.items()}
        if isinstance(value, list):
            return [self.interpolated(entry, *keys) for entry in value]
        return _REFERENCE.sub(lambda match: self._value(match, keys), value) if isinstance(value, str) else value

    def _value(self, reference: re.Match[str], keys: tuple[str, ...]) -> str:
        name, operator = reference["plain"] or reference["name"], reference["operator"] or ""
        if name is None:  # The reference is `$$`.
            return "$"
        value, operand = self.variables.get(name), self.interpolated(reference["operand"] or "", *keys)
        # With a colon, as in `:-`, an empty variable counts as unset.
        if value is None or (value == "" and operator.startswith(":")):
            if operator.endswith("?"):
                raise self.refusal(f"the variable {name} is not set: {operand}", *keys)
            return str(operand) if operator.endswith("-") else ""
        return str(operand) if operator.endswith("+") else value

    def refusal(self, message: str, *keys: str) -> UsageFailure:
        """The error with this message about these keys of the file, and their line."""
        return UsageFailure(one_line(f"{self.path}:{line_of(self.document, keys)}: {dotted(keys)}: {message}"))


def _kind(keys: Mapping[str, Any], properties: Mapping[str, str]) -> Kind | None:
    """The kind of node that a service runs; None for others, such as a service that creates topics."""
    if roles := properties.get("process_roles"):
        return "brokers" if "broker" in roles else "controllers"
    # Confluent's examples of tools set this property to `ignored`, since the image requires it.
    if properties.get("zookeeper_connect", "ignored") != "ignored":
        return "brokers"
    # With a command of its own, an image of Kafka or ZooKeeper may run one of their tools.
    if "command" in keys or "entrypoint" in keys:
        return None
    image = str(keys.get("image", "")).partition("@")[0].rpartition("/")[2].partition(":")[0]
    return "brokers" if image in _KAFKA_IMAGES else "zookeepers" if image in _ZOOKEEPER_IMAGES else None


def _variables_in(path: Path) -> dict[str, str]:
    """The variables of an environment file, a `NAME=VALUE` in each line; raises `UsageFailure` if it can't be read."""
    lines = [line.strip().removeprefix("export ") for line in text_of(path).splitlines()]
    pairs = [line.partition("=") for line in lines if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip().strip("'\"") for name, _, value in pairs}

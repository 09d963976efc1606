"""Secured client listeners: certificates and a SCRAM user that are made for one cluster and removed with it.

Only the listeners for clients are secured: the published one, and the one for containers of the cluster's network. The
listeners between the servers, and ZooKeeper, stay plaintext on that network. Private keys and the password are in the
memory of this process, in files of the containers, and in files of mode 0600 in a folder of mode 0700; the cluster's
metadata has the password salted and hashed. Neither keys nor password are ever in environment variables, command lines,
logs or run directories.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kafka_chaos.contract.command.files import package_text
from kafka_chaos.harness.cluster.containers.image import Scratch
from kafka_chaos.harness.cluster.containers.labels import SecretFolder
from kafka_chaos.harness.cluster.containers.network import LOOPBACK, is_ipv4
from kafka_chaos.harness.cluster.node import Node

PLAINTEXT, SASL_SSL, MTLS = "plaintext", "sasl_ssl", "mtls"
SECURITY_MODES = (PLAINTEXT, SASL_SSL, MTLS)
USER = "kafka-chaos"
MECHANISM = "SCRAM-SHA-512"
_PEM_FOLDER = "/etc/kafka-chaos/pem"
_USER_FILE = "/etc/kafka-chaos/user.properties"
_CONFIG_COMMAND = """
main=kafka.admin.ConfigCommand
# The class moved in 4.4. A jar has the names of its classes in plain text.
if grep -qs org/apache/kafka/tools/ConfigCommand.class /opt/kafka/jars/kafka-tools-*.jar; then
  main=org.apache.kafka.tools.ConfigCommand
fi
java -Xmx128m -XX:TieredStopAtLevel=1 -cp '/opt/kafka/jars/*' $main"""


@dataclass(frozen=True)
class SecuredListener:
    """The configuration of a secured listener for brokers and clients; its repr shows no secrets.

    `broker_files` maps paths in a broker's container to contents; `client_configs` are librdkafka's keys, which
    `client_config_file` holds too, in the format of `run --attach --client-config`.
    """

    broker_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    client_configs: Mapping[str, str] = field(default_factory=dict, repr=False)
    client_config_file: Path | None = None


def make_listener(mode: str, *, run_id: str, maker: Scratch, names: Sequence[str]) -> SecuredListener:
    """Make certificates in the throw-away container `maker`, and a password for the user that `add_user` adds later.

    `names`: the hosts and IPv4 addresses by which clients reach the brokers. Call this before any broker starts, since
    brokers read certificates at their start.
    """
    ca, broker, client = make_certificates(maker, names)
    folder = SecretFolder(run_id)
    configs = {"ssl.ca.location": folder.write("ca.pem", ca.decode())}
    if mode == MTLS:
        pem = folder.write("client.pem", client.decode())
        configs |= {"security.protocol": "SSL", "ssl.certificate.location": pem, "ssl.key.location": pem}
    else:
        configs |= {"security.protocol": "SASL_SSL", "sasl.mechanisms": MECHANISM, "sasl.username": USER}
        configs["sasl.password"] = secrets.token_urlsafe(24)
    file = folder.write("client.properties", "".join(f"{key}={value}\n" for key, value in configs.items()))
    return SecuredListener({f"{_PEM_FOLDER}/broker.pem": broker, f"{_PEM_FOLDER}/ca.pem": ca}, configs, Path(file))


def add_user(broker: Node, address: str, configs: Mapping[str, str]) -> None:
    """Add the SCRAM user that the client configs name, if they name one, through a broker that serves (KIP-554).

    `address`: the broker's listener for other brokers. The password is never in a command line: it is in a file of the
    container until the user is added.
    """
    if "sasl.password" not in configs:
        return
    broker.write_file(_USER_FILE, f"{MECHANISM}=iterations=4096,password={configs['sasl.password']}\n")
    entity = f"--alter --entity-type users --entity-name {USER} --add-config-file {_USER_FILE}"
    command = f"{_CONFIG_COMMAND} --bootstrap-server {address} {entity}; ended=$?; rm -f {_USER_FILE}; exit $ended"
    broker.must_execute("sh", "-c", command)


def make_certificates(maker: Scratch, names: Sequence[str] = ()) -> tuple[bytes, bytes, bytes]:
    """Make certificates for hosts and IPv4 addresses. Returns, in PEM, the authority's certificate, the brokers' key
    with certificate, and the client's key with certificate."""
    subjects = ",".join(f"{'IP' if is_ipv4(name) else 'DNS'}:{name}" for name in (LOOPBACK, "localhost", *names))
    maker.must_execute("sh", "-c", package_text(__package__, "make-certificates.sh"), "sh", _PEM_FOLDER, subjects)
    made = [maker.read_file(f"{_PEM_FOLDER}/{name}.pem") for name in ("ca", "broker", "client")]
    maker.must_execute("rm", "-r", _PEM_FOLDER)
    return made[0], made[1], made[2]

"""TLS, and SCRAM or PLAIN, for a connection to one broker, from the same librdkafka keys that other clients get."""

import socket
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from kafka_chaos.contract.command.errors import ClusterFailure
from kafka_chaos.contract.wire.kafka_python import SaslAuthenticateRequest, SaslHandshakeRequest, ScramClient

_PLAIN, _SCRAM = "PLAIN", "SCRAM-"


class BrokerUnreachable(ClusterFailure):
    """The broker refused the connection or the login, or closed the connection before it answered."""


class MechanismUnknown(BrokerUnreachable):
    """Clients log in by a SASL mechanism that single requests do not have, so that no broker can be asked alone."""


def over_tls(connection: socket.socket, host: str, configs: Mapping[str, str]) -> socket.socket:
    """The connection over TLS where `configs` ask for it; the broker's certificate has to name `host`."""
    if not configs.get("security.protocol", "PLAINTEXT").upper().endswith("SSL"):
        return connection
    context = ssl.create_default_context(cafile=configs.get("ssl.ca.location"))
    if "ssl.certificate.location" in configs:
        context.load_cert_chain(configs["ssl.certificate.location"], configs.get("ssl.key.location"))
    return context.wrap_socket(connection, server_hostname=host)


def log_in(request: Callable[[Any], Any], address: str, configs: Mapping[str, str]) -> None:
    """Authenticate where `configs` ask for SASL.

    Raises `BrokerUnreachable` where the broker refuses, `MechanismUnknown` for another one than SCRAM or PLAIN.
    """
    if not configs.get("security.protocol", "PLAINTEXT").upper().startswith("SASL"):
        return
    mechanism = configs.get("sasl.mechanisms") or configs.get("sasl.mechanism", "GSSAPI")
    if mechanism != _PLAIN and not mechanism.startswith(_SCRAM):
        raise MechanismUnknown(f"{address}: sasl.mechanisms: {mechanism}: expected PLAIN or SCRAM for single requests")
    _check(address, request(SaslHandshakeRequest(mechanism=mechanism, version=1)))
    if mechanism == _PLAIN:
        named = f"\0{configs['sasl.username']}\0{configs['sasl.password']}"
        _check(address, request(SaslAuthenticateRequest(auth_bytes=named.encode(), version=1)))
        return
    scram = ScramClient(configs["sasl.username"], configs["sasl.password"], mechanism)
    first = request(SaslAuthenticateRequest(auth_bytes=scram.first_message(), version=1))
    scram.process_server_first_message(_check(address, first).auth_bytes)
    final = request(SaslAuthenticateRequest(auth_bytes=scram.final_message(), version=1))
    scram.process_server_final_message(_check(address, final).auth_bytes)


def _check(address: str, answer: Any) -> Any:
    if answer.error_code:
        reason = getattr(answer, "error_message", None) or f"error {answer.error_code}"
        raise BrokerUnreachable(f"{address} refuses the login: {reason}")
    return answer

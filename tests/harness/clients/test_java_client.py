"""A configuration of librdkafka, as Kafka's Java client has it."""

from pathlib import Path

import pytest

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.harness.clients.java_client import java_client_configs


def test_a_password_becomes_a_jaas_config_with_its_quotes_escaped(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("the authority")
    configs = {
        "security.protocol": "SASL_SSL", "sasl.mechanisms": "SCRAM-SHA-512", "sasl.username": "me",
        "sasl.password": 'a"b\\c', "ssl.ca.location": str(tmp_path / "ca.pem"), "socket.timeout.ms": "1000",
    }  # fmt: skip
    assert java_client_configs(configs) == {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "the authority",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="a\\"b\\\\c";',
    }


def test_a_certificate_and_a_key_become_a_keystore(tmp_path: Path) -> None:
    for name in ("crt", "key"):
        (tmp_path / name).write_text(f"the {name}")
    configs = {
        "security.protocol": "SSL", "ssl.certificate.location": str(tmp_path / "crt"),
        "ssl.key.location": str(tmp_path / "key"), "ssl.key.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }  # fmt: skip
    assert java_client_configs(configs) == {
        "security.protocol": "SSL", "ssl.key.password": "secret", "ssl.endpoint.identification.algorithm": "",
        "ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": "the crt", "ssl.keystore.key": "the key",
    }  # fmt: skip


def test_a_plaintext_listener_needs_nothing() -> None:
    assert java_client_configs({}) == {}
    assert java_client_configs({"client.id": "probe"}) == {}


@pytest.mark.parametrize(
    ("configs", "expected"),
    [
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, "sasl.mechanisms: GSSAPI: expected PLAIN"),
        ({"security.protocol": "SASL_SSL"}, "sasl.mechanisms: GSSAPI: expected PLAIN"),
        ({"enable.ssl.certificate.verification": "false"}, "Kafka's Java client has no such setting"),
        ({"ssl.ca.location": "/nowhere.pem"}, "ssl.ca.location: /nowhere.pem: can't be read as PEM"),
    ],
)
def test_what_the_java_client_does_not_have_is_refused(configs: dict[str, str], expected: str) -> None:
    with pytest.raises(UsageFailure, match=expected):
        java_client_configs(configs)

"""Reads files of librdkafka's keys, and translates the security keys for Kafka's Java client."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path

from kafka_chaos.contract.command.errors import UsageFailure
from kafka_chaos.contract.command.files import text_of

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_SAME_KEYS = ("security.protocol", "ssl.key.password", "ssl.keystore.password", "ssl.cipher.suites")


def read_client_config(path: Path, *, owned: Collection[str] = ()) -> dict[str, str]:
    """librdkafka's keys from a file of `key=value` lines and `#` comments. Raises `UsageFailure` with file and line.

    `owned`: keys that the file may not have, since the caller sets them. Messages show no values, which may be secrets.
    """
    configs: dict[str, str] = {}
    for number, line in enumerate(text_of(path).splitlines(), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not key:
            raise UsageFailure(f"{path}:{number}: expected key=value")
        if key in owned:
            raise UsageFailure(f"{path}:{number}: {key}: set by --attach or the lane: leave it out")
        configs[key] = value
    return configs


def java_client_configs(configs: Mapping[str, str]) -> dict[str, str]:
    """The Java client's keys for TLS and SASL; keys about anything else are left out.

    Raises `UsageFailure`, which shows no value, for a setting that the Java client does not have.
    """
    java = {key: configs[key] for key in _SAME_KEYS if key in configs}
    if str(configs.get("enable.ssl.certificate.verification", "true")).lower() == "false":
        raise UsageFailure("enable.ssl.certificate.verification=false: Kafka's Java client has no such setting")
    if "ssl.endpoint.identification.algorithm" in configs:
        algorithm = configs["ssl.endpoint.identification.algorithm"]
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    if authorities := _pem(configs, "ssl.ca"):
        java |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    return java | _own_certificate(configs) | _login(configs)


def _own_certificate(configs: Mapping[str, str]) -> dict[str, str]:
    """The keys for the certificate by which the client authenticates itself, if it has one."""
    if "ssl.keystore.location" in configs:
        return {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": configs["ssl.keystore.location"]}
    chain, key = _pem(configs, "ssl.certificate"), _pem(configs, "ssl.key")
    if not chain or not key:
        return {}
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def _login(configs: Mapping[str, str]) -> dict[str, str]:
    if not configs.get("security.protocol", "").upper().startswith("SASL"):
        return {}
    mechanism = configs.get("sasl.mechanisms") or configs.get("sasl.mechanism", "GSSAPI")
    if mechanism not in _LOGIN_MODULES:
        raise UsageFailure(f"sasl.mechanisms: {mechanism}: expected {', '.join(_LOGIN_MODULES)}")
    credentials = (configs.get(f"sasl.{key}", "") for key in ("username", "password"))
    user, password = (json.dumps(value, ensure_ascii=False) for value in credentials)  # JAAS quotes as JSON does.
    login = f"{_LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _pem(configs: Mapping[str, str], key: str) -> str:
    """The PEM text of a `key` such as `ssl.ca`: from `KEY.pem`, or from the file `KEY.location`; else empty."""
    if f"{key}.pem" in configs:
        return configs[f"{key}.pem"]
    path = configs.get(f"{key}.location")
    if path is None:
        return ""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageFailure(f"{key}.location: {path}: can't be read as PEM") from error

"""The pages' templates: every text in them is escaped, and a name that a template lacks is an error."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined

_PACKAGE, _FOLDER = "kafka_chaos.harness.report", "templates"


def environment() -> Environment:
    """The environment of all pages that this project writes."""
    return Environment(
        loader=PackageLoader(_PACKAGE, _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def static(name: str) -> str:
    """A file that a page contains unchanged."""
    return resources.files(_PACKAGE).joinpath(_FOLDER, name).read_text(encoding="utf-8")

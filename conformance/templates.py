"""Pages in Markdown from templates, which lie beside the module that has what is in them."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any


def markdown(template: Path, filters: Mapping[str, Callable[..., Any]], **values: Any) -> str:
    """A page; blank lines are never two in a row."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"capital": lambda text: text[:1].upper() + text[1:], **filters}
    page = environment.get_template(template.name).render(**values)
    return re.sub(r"\n{3,}", "\n\n", page).strip("\n") + "\n"

"""The version that a release has: `release_version.py [--tag vX.Y.Z]` prints it.

Guarantee: `kafka_chaos.__version__` and the newest version in CHANGELOG.md are one, or this exits with 1 and says which
differ. With a tag, the tag is the same version and nothing is left under "Unreleased".
"""

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def declared(root: Path) -> str:
    """`__version__`, read without an import, so that no package has to be installed."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / "kafka_chaos" / "__init__.py").read_text(), re.MULTILINE)
    if found is None:
        raise SystemExit('kafka_chaos/__init__.py: expected a line __version__ = "X.Y.Z"')
    return found[1]


def sections(root: Path) -> dict[str, str]:
    """The changelog's sections of the second level by version, in their order; "Unreleased" is one."""
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = re.split(r"^## \[([^\]]+)\].*$", text, flags=re.MULTILINE)
    return {version: body.strip() for version, body in zip(parts[1::2], parts[2::2], strict=True)}


def problems(root: Path, tag: str | None) -> list[str]:
    """The reasons why the checkout is no release."""
    version, found = declared(root), sections(root)
    newest = next((name for name in found if name != "Unreleased"), "no version")
    wrong = []
    if newest != version:
        wrong.append(f"CHANGELOG.md: its newest version is {newest}, but kafka_chaos.__version__ is {version}")
    if tag is not None and tag != f"v{version}":
        wrong.append(f"the tag is {tag}, but kafka_chaos.__version__ is {version}: expected v{version}")
    if tag is not None and found.get("Unreleased"):
        wrong.append("CHANGELOG.md: there are entries under Unreleased: move them under the version to be released")
    return wrong


def main() -> None:
    """Print the version, or exit with 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", help="the tag that is to be released")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout; default: this one")
    arguments = parser.parse_args()
    if wrong := problems(arguments.root, arguments.tag):
        sys.exit("\n".join(wrong))
    print(declared(arguments.root))


if __name__ == "__main__":
    main()

"""Processes of this machine, as tests look at them."""

from pathlib import Path


def runs(pid: int) -> bool:
    """Whether the process has not ended, also where nobody has asked yet how it did."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except FileNotFoundError:
        return False

"""Faults: immutable values that inject themselves, prove that they took effect, and heal. See README.md."""

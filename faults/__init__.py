"""Faults: frozen values that are injected, must prove that they took effect, and are healed. See README.md."""

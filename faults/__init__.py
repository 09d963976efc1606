"""Faults: frozen values that are injected, must prove that they bit, and are healed. See README.md."""

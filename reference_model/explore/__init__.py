"""Exhaustive exploration of the replication protocol and its variants against invariants."""

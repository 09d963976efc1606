"""Behaviour of client libraries beyond the KIPs."""

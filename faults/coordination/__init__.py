"""Fault kinds that change leaders, sessions, replicas or partitions, while every process runs."""

"""Histories that other tools recorded, turned into run directories that `kafka-chaos verify` takes."""

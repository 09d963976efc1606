"""Runs again what a run did: as it was realised, or shrunk to what a finding needs."""

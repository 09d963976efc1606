"""Transactional lanes: their tables, their anomalies, and the evidence for these."""

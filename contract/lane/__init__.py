"""A lane: its keys, each declared once, its faults and configuration, and the families of anomalies."""

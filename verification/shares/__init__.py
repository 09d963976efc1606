"""The evidence about share groups: what a run must hold for their anomalies to be judged."""

"""Predictions: which anomalies a lane's reachable states can show."""

"""Promises of recovery: how long a lane was unavailable, compared with the bound that follows from its time-outs."""

"""The record of runs: what each lane of each run was, and what it showed."""

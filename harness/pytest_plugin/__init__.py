"""The pytest plugin: real clusters, faults and verdicts as fixtures, see docs/guides/application-under-test.md.

`plugin.py` is what pytest loads, and it imports nothing heavy; `values.py` is what a test writes down; `clusters.py`
and `runs.py` do the work once a fixture is used.
"""

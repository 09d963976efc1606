"""The pytest plugin: real clusters, faults and verdicts as fixtures. See docs/guides/application-under-test.md.

pytest loads `plugin.py`, which imports nothing heavy. `values.py` has the values that tests write. `clusters.py` and
`runs.py` do the work once a test uses a fixture.
"""

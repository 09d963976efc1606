"""Histories and run directories that tests share."""

import pytest

# So that a failing assertion shows what differs.
pytest.register_assert_rewrite("tests.verification.samples.engines")

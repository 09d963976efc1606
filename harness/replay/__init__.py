"""Looks for findings with random schedules, runs realised schedules again, and shrinks them."""

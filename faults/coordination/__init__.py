"""Kinds that change who leads and who is there, while every process runs."""

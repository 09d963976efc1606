"""Transactions in lock step."""

"""Plays the breaches of the protocol's older variants (docs/model.md) on brokers that have these variants."""

"""The model against real brokers: scenarios, walks, stories and breaches, played on both and compared."""

"""The model against real brokers: scenarios, walks and stories, played on both and compared."""

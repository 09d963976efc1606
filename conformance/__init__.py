"""The model and clients against real brokers: what both show is compared, for single lanes and in an atlas of many."""

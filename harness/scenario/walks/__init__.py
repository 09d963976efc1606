"""Random walks of the model, replayed in lock step on real brokers."""

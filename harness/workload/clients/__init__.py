"""The harness's own producer and consumer, which record what they send and read, and what every client needs."""

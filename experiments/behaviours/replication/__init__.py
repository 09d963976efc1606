"""Replication: what acks, leader epochs, the ISR and the topic parameters keep and lose."""

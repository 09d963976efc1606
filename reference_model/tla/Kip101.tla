---- MODULE Kip101 ----
\* Kafka 0.11 to 1.1.
CONSTANTS BROKERS, RECORDS, LEADER_EPOCHS, KILLS, POWER_LOSSES, UNCLEAN
VARIABLES replicas, requests, isr, next_record, faults
LOCAL INSTANCE Truncation
INSTANCE Breaches WITH truncation <- to_end_of_last_epoch, ASKS_LEADER <- TRUE, FENCED <- FALSE
====

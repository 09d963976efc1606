---- MODULE Kip279 ----
\* Kafka 2.0.
CONSTANTS BROKERS, RECORDS, LEADER_EPOCHS, KILLS, POWER_LOSSES, UNCLEAN
VARIABLES replicas, requests, isr, next_record, faults
LOCAL INSTANCE Truncation
INSTANCE Breaches WITH truncation <- to_last_common_epoch, ASKS_LEADER <- TRUE, FENCED <- FALSE
====

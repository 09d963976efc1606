---- MODULE TruncateToHighWatermark ----
\* Kafka before 0.11.
CONSTANTS BROKERS, RECORDS, LEADER_EPOCHS, KILLS, POWER_LOSSES, UNCLEAN
VARIABLES replicas, requests, isr, next_record, faults
LOCAL INSTANCE Truncation
INSTANCE Breaches WITH truncation <- to_high_watermark, ASKS_LEADER <- FALSE, FENCED <- FALSE
====

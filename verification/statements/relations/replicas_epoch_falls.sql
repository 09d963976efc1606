-- a leader epoch before an earlier one
-- of: replicas; rests: replica_divergence
SELECT later.lane, later.`partition`, later.broker
FROM epochs later
JOIN epochs earlier USING (lane, `partition`, broker)
WHERE later.leader_epoch > earlier.leader_epoch AND later.first < earlier.last

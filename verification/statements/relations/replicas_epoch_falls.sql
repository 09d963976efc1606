-- a leader epoch before an earlier one
-- of: replicas; rests: replica_divergence
SELECT later.lane, later.`partition`, later.broker
FROM epochs later
JOIN epochs earlier
  ON earlier.lane = later.lane AND earlier.`partition` = later.`partition` AND earlier.broker = later.broker
WHERE later.leader_epoch > earlier.leader_epoch AND later.first < earlier.last

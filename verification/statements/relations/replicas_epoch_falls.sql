-- a leader epoch before an earlier one
-- of: replicas; rests: replica_divergence
SELECT e.lane, e.`partition`, e.broker
FROM epochs e
JOIN epochs o ON o.lane = e.lane AND o.`partition` = e.`partition` AND o.broker = e.broker
WHERE e.leader_epoch > o.leader_epoch AND e.first < o.last

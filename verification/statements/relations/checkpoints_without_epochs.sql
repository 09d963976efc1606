-- without the leader epochs of records in replicas/
-- of: checkpoints.json; rests: replica_divergence
SELECT e.lane, e.`partition`, e.leader_epoch
FROM epochs e
JOIN lanes l USING (lane)
JOIN (SELECT DISTINCT lane, `partition` FROM checkpoints) c USING (lane, `partition`)
LEFT JOIN (SELECT DISTINCT lane, `partition` FROM starts WHERE is_elected = 0) s
  ON s.lane = e.lane AND s.`partition` = e.`partition`
WHERE l.planned = 1 AND e.leader_epoch >= 0 AND s.lane IS NULL

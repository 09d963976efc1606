-- without the leader epochs of records in replicas/
-- of: checkpoints.json; rests: replica_divergence
SELECT e.lane, e.`partition`, e.leader_epoch
FROM epochs e
JOIN lanes l USING (lane)
JOIN (SELECT DISTINCT lane, `partition` FROM checkpoints) c USING (lane, `partition`)
LEFT ANTI JOIN (SELECT * FROM starts WHERE is_elected = 0) s USING (lane, `partition`)
WHERE l.planned = 1 AND e.leader_epoch >= 0

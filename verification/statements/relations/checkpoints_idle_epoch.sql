-- a leader epoch past the end of the log, or in which nobody led or wrote
-- of: checkpoints.json; rests: replica_divergence
SELECT s.lane, s.`partition`, s.leader_epoch
FROM starts s
JOIN lanes l USING (lane)
JOIN (SELECT lane, `partition`, MAX(log_end_offset) AS log_end FROM checkpoints GROUP BY lane, `partition`) c
  USING (lane, `partition`)
LEFT JOIN (SELECT DISTINCT lane, `partition` FROM elections) k ON k.lane = s.lane AND k.`partition` = s.`partition`
LEFT JOIN (
  SELECT lane, `partition`, leader_epoch FROM elections
  UNION
  SELECT lane, `partition`, leader_epoch FROM epochs
) w ON w.lane = s.lane AND w.`partition` = s.`partition` AND w.leader_epoch = s.leader_epoch
WHERE s.is_elected = 0 AND l.planned = 1 AND (s.first > c.log_end OR (k.lane IS NOT NULL AND w.lane IS NULL))

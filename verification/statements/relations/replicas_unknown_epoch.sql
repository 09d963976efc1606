-- a leader epoch that checkpoints.json does not have, or with records before that epoch's start
--
-- When retention removes records, brokers at once forget the epochs before the first record that is left, and let its epoch
-- start there; they delete the segments with the removed records later.
-- of: replicas; rests: replica_divergence
SELECT e.lane, e.`partition`, e.leader_epoch
FROM epochs e
JOIN lanes l USING (lane)
JOIN (
  SELECT lane, `partition`, MIN(leader_epoch) AS oldest FROM chains GROUP BY lane, `partition`
) k USING (lane, `partition`)
LEFT JOIN chains c ON c.lane = e.lane AND c.`partition` = e.`partition` AND c.leader_epoch = e.leader_epoch
WHERE e.leader_epoch >= 0 AND (c.lane IS NULL OR e.first < c.first)
  AND NOT (l.cleaned = 1 AND e.leader_epoch <= k.oldest)

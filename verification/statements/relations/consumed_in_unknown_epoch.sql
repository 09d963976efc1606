-- read with a leader epoch that no replica has
--
-- Later than that of every replica, or earlier, where nothing that was committed gets lost.
-- of: consumed
SELECT c.lane, c.`partition`, c.`offset`
FROM (
  SELECT lane, `partition`, `offset`, producer_id, seq, MIN(leader_epoch) AS first, MAX(leader_epoch) AS last
  FROM copies
  GROUP BY lane, `partition`, `offset`, producer_id, seq
) r
JOIN lanes l USING (lane)
JOIN consumed c USING (lane, `partition`, `offset`, producer_id, seq)
WHERE c.leader_epoch > r.last OR (c.leader_epoch < r.first AND l.lossless = 1)

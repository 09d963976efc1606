-- read with a leader epoch that no replica has
--
-- Later than that of every replica, or, where nothing committed gets lost, earlier; looked for in `epoch_words` alone.
-- of: consumed
SELECT c.lane, c.`partition`, c.`offset`
FROM (
  SELECT s.lane, s.`partition`, s.`offset`, s.producer_id, s.seq, MIN(s.leader_epoch) AS first, MAX(s.leader_epoch) AS last
  FROM copies s
  LEFT SEMI JOIN epoch_words w ON w.lane = s.lane AND w.`partition` = s.`partition` AND w.word = s.`offset` DIV 32
  GROUP BY s.lane, s.`partition`, s.`offset`, s.producer_id, s.seq
) r
JOIN lanes l USING (lane)
JOIN consumed c USING (lane, `partition`, `offset`, producer_id, seq)
WHERE c.leader_epoch > r.last OR (c.leader_epoch < r.first AND l.lossless = 1)

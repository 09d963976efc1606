-- The records that a group has put behind it: what it was to be given of the final log before the offset that it has
-- committed, from the first offset that it processed or committed, or if it began at the `earliest`, from the beginning. An
-- offset at which members were only given other records was used again.
SELECT
  g.judged, g.`group`, s.lane, s.`partition`, s.`offset`, s.producer_id, s.seq, COUNT(o.judged) > 0 AS is_processed
FROM due s
JOIN `groups` g USING (lane)
JOIN progress w USING (judged, `group`, `partition`)
LEFT SEMI JOIN known k USING (lane, producer_id, seq)
LEFT JOIN processed o
  ON o.judged = g.judged AND o.`group` = g.`group` AND o.`partition` = s.`partition` AND o.`offset` = s.`offset`
WHERE (g.earliest = 1 OR s.`offset` >= w.first) AND s.`offset` < w.past
GROUP BY g.judged, g.`group`, s.lane, s.`partition`, s.`offset`, s.producer_id, s.seq
HAVING COUNT(o.judged) = 0 OR COUNT_IF(o.producer_id = s.producer_id AND o.seq = s.seq) > 0

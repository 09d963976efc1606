-- The records that a group has put behind it: between the first offset that it processed or committed and the offset that
-- it has committed, what it was to be given of the final log. An offset at which members were only given other records
-- was used again.
SELECT
  p.judged, p.`group`, p.lane, p.`partition`, p.`offset`, p.producer_id, p.seq, r.records IS NOT NULL AS is_processed
FROM (
  SELECT DISTINCT g.judged, g.`group`, s.lane, s.`partition`, s.`offset`, s.producer_id, s.seq
  FROM due s
  JOIN `groups` g USING (lane)
  JOIN progress w USING (judged, `group`, `partition`)
  LEFT SEMI JOIN known k USING (lane, producer_id, seq)
  WHERE s.`offset` >= w.first AND s.`offset` < w.past
) p
LEFT JOIN (
  SELECT judged, `group`, `partition`, `offset`, COUNT(*) AS records
  FROM processed
  GROUP BY judged, `group`, `partition`, `offset`
) r USING (judged, `group`, `partition`, `offset`)
LEFT JOIN (SELECT DISTINCT judged, `group`, `partition`, `offset`, producer_id, seq FROM processed) o
  ON o.judged = p.judged AND o.`group` = p.`group` AND o.`partition` = p.`partition` AND o.`offset` = p.`offset`
  AND o.producer_id = p.producer_id AND o.seq = p.seq
WHERE r.records IS NULL OR o.seq IS NOT NULL

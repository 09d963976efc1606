-- Of lanes whose acknowledgements name no place (acks=0), the blocks, 32 numbers of a producer, that are not proven clean. In
-- all others each record was acknowledged, and is in the log once, in the partition that it was sent to.
SELECT lane, producer_id, seq DIV 32 AS block
FROM (
  SELECT
    s.lane, s.producer_id, s.seq, CASE WHEN s.outcome = 'ok' THEN 0 ELSE 1 END AS in_doubt,
    XXHASH64(l.salt, s.producer_id, s.seq, COALESCE(s.`partition`, -1)) AS differs
  FROM known s
  JOIN lanes l ON l.lane = s.lane AND l.unplaced = 1
  UNION ALL
  SELECT g.lane, g.producer_id, g.seq, 0, -XXHASH64(l.salt, g.producer_id, g.seq, g.`partition`)
  FROM log g
  JOIN lanes l ON l.lane = g.lane AND l.unplaced = 1
) q
GROUP BY lane, producer_id, seq DIV 32
HAVING SUM(in_doubt) > 0 OR SUM(differs) <> 0

-- What producers were told of each word, 32 offsets of a partition (null without an offset). `unplaced`: acknowledged at no
-- place; `placed` and `content`: number and hashes of what is acknowledged at one; `claims`: in doubt, and naming one.
SELECT
  s.lane, s.`partition`, s.`offset` DIV 32 AS word, COUNT(*) AS n,
  COUNT_IF(s.outcome = 'ok') AS acknowledged,
  COUNT_IF(s.outcome = 'ok' AND NOT s.acknowledged) AS unplaced,
  MIN(CASE WHEN s.outcome = 'ok' THEN s.complete_ns END) AS first_acknowledged_ns,
  MAX(CASE WHEN s.outcome = 'ok' THEN s.`offset` END) AS acknowledged_end,
  COUNT_IF(s.acknowledged AND NOT (s.producer_id = -1 AND s.seq = -1)) AS placed,
  SUM(
    CASE WHEN s.acknowledged AND NOT (s.producer_id = -1 AND s.seq = -1)
      THEN XXHASH64(l.salt, s.`offset`, s.producer_id, s.seq) ELSE 0 END
  ) AS content,
  COUNT_IF(s.claimed AND NOT (s.producer_id = -1 AND s.seq = -1)) AS claims
FROM sends s
JOIN lanes l USING (lane)
GROUP BY s.lane, s.`partition`, s.`offset` DIV 32

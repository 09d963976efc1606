-- Acknowledgements and the log by words, 32 offsets of a partition each. `differs`: how many more records are acknowledged
-- there than stored, `content_differs`: the same of the sums of their hashes; both are 0 where the log holds just what was
-- acknowledged. `offsets`: how many different ones the log has; `claims`: records in doubt that name a place there.
-- `stored` and `content`: number and hashes of the log's records.
--
-- keep: yes
SELECT
  q.lane, q.`partition`, q.word,
  SUM(q.differs) AS differs, SUM(q.content_differs) AS content_differs, SUM(q.stored) AS stored, SUM(q.content) AS content,
  BIT_COUNT(BIT_OR(q.bit)) AS offsets, SUM(q.claims) AS claims
FROM (
  SELECT
    s.lane, s.`partition`, s.`offset` DIV 32 AS word, CASE WHEN s.acknowledged THEN 1 ELSE 0 END AS differs,
    CASE WHEN s.acknowledged THEN XXHASH64(l.salt, s.`offset`, s.producer_id, s.seq) ELSE 0 END AS content_differs,
    0 AS stored, CAST(0 AS BIGINT) AS content, CAST(0 AS BIGINT) AS bit, CASE WHEN s.claimed THEN 1 ELSE 0 END AS claims
  FROM sends s
  JOIN lanes l ON l.lane = s.lane
  WHERE (s.acknowledged OR s.claimed) AND NOT (s.producer_id = -1 AND s.seq = -1)
  UNION ALL
  SELECT
    g.lane, g.`partition`, g.`offset` DIV 32, -1, -XXHASH64(l.salt, g.`offset`, g.producer_id, g.seq), 1,
    XXHASH64(l.salt, g.`offset`, g.producer_id, g.seq),
    SHIFTLEFT(CAST(1 AS BIGINT), CAST((g.`offset` % 32 + 32) % 32 AS INT)), 0
  FROM log g
  JOIN lanes l ON l.lane = g.lane
) q
GROUP BY q.lane, q.`partition`, q.word

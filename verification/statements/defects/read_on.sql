-- Without KIP-320: whoever got past the offset of an unseen record had read another record there and never came back, and
-- began to read what is gone before a leader was elected.
--
-- The last ones may be given out after the election: a consumer that was away had fetched them before.
WITH missed AS (
  SELECT f.number, f.lane, f.producer_id, f.seq, MIN(g.`partition`) AS `partition`, MIN(g.`offset`) AS `offset`
  FROM findings f
  JOIN log g USING (lane, producer_id, seq)
  WHERE f.anomaly = 'unseen'
  GROUP BY f.number, f.lane, f.producer_id, f.seq
  HAVING COUNT(*) = 1
), misread AS (
  SELECT
    m.number, m.lane, m.`partition`, c.consumer,
    MIN(CASE WHEN c.producer_id <> m.producer_id OR c.seq <> m.seq THEN c.poll_ns END) AS first_ns
  FROM missed m
  JOIN consumed c USING (lane, `partition`, `offset`)
  GROUP BY m.number, m.lane, m.`partition`, c.consumer
)
SELECT m.number, e.defect
FROM missed m
JOIN met e ON e.lane = m.lane AND e.`partition` = m.`partition` AND e.rule = 'read_on'
JOIN (SELECT lane, `partition`, MIN(first_ns) AS first_ns FROM misread GROUP BY lane, `partition`) f
  ON f.lane = m.lane AND f.`partition` = m.`partition`
LEFT SEMI JOIN misread r ON r.number = m.number AND r.first_ns IS NOT NULL
LEFT ANTI JOIN (
  SELECT q.number
  FROM missed q
  JOIN reads_by_partition p USING (lane, `partition`)
  LEFT ANTI JOIN misread r USING (number, consumer)
  WHERE p.last >= q.`offset`
) p ON p.number = m.number
WHERE f.first_ns < e.ts_ns

-- By lane and partition how many rows each table has, what acknowledgements show, and the last offsets of reads and of the
-- log (`tables.facts.PartitionFacts`). Records of no known partition are under null. `doubled`: repeated rows.
SELECT
  q.lane, q.`partition`,
  SUM(q.produced) AS produced, SUM(q.acknowledged) AS acknowledged, SUM(q.consumed) AS consumed, SUM(q.stored) AS stored,
  SUM(q.doubled) AS doubled, SUM(q.unplaced) AS unplaced, MIN(q.first_acknowledged_ns) AS first_acknowledged_ns,
  MAX(q.acknowledged_end) AS acknowledged_end, MAX(e.read_end) AS read_end, MAX(e.log_end) AS log_end,
  MAX(l.is_transactional) = 1 AS is_transactional,
  MAX(CASE WHEN l.is_transactional = 1 AND l.final_log = 1 THEN e.visible_end END) AS committed_end
FROM (
  SELECT
    lane, `partition`, SUM(n) AS produced, SUM(acknowledged) AS acknowledged, 0 AS consumed, 0 AS stored, 0 AS doubled,
    SUM(unplaced) AS unplaced, MIN(first_acknowledged_ns) AS first_acknowledged_ns,
    MAX(acknowledged_end) AS acknowledged_end
  FROM sent_words
  GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, 0, 0, SUM(n), 0, 0, 0, NULL, NULL FROM read_words GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, 0, 0, 0, SUM(stored), 0, 0, NULL, NULL FROM log_words GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, 0, 0, 0, 0, SUM(n) - COUNT(*), 0, NULL, NULL
  FROM (SELECT lane, `partition`, COUNT(*) AS n FROM suspect_log GROUP BY lane, `partition`, `offset`, producer_id, seq) q
  GROUP BY lane, `partition`
) q
JOIN lanes l USING (lane)
LEFT JOIN partition_ends e USING (lane, `partition`)
GROUP BY q.lane, q.`partition`

-- By lane and partition how many rows each table has, and what acknowledgements show (`tables.facts.PartitionFacts`).
-- Records whose partition is unknown are counted under null. `doubled`: rows of the log that repeat another one.
SELECT
  lane, `partition`,
  SUM(produced) AS produced, SUM(acknowledged) AS acknowledged, SUM(consumed) AS consumed, SUM(stored) AS stored,
  SUM(doubled) AS doubled, SUM(unplaced) AS unplaced, MIN(first_acknowledged_ns) AS first_acknowledged_ns,
  MAX(acknowledged_end) AS acknowledged_end
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
GROUP BY lane, `partition`

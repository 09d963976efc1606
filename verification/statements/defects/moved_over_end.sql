-- librdkafka-4844: the position of a member moved by one, over the end of its partition. The group processed the records
-- on both sides of the one that it skipped, or has committed the offset behind the next one that is to come.
SELECT f.number, m.defect
FROM findings f
JOIN met m ON m.lane = f.lane AND m.rule = 'moved_over_end'
JOIN `groups` g ON g.judged = f.lane
LEFT JOIN log_ends e ON e.lane = g.lane AND e.`partition` = f.`partition`
LEFT JOIN (
  SELECT
    judged, producer_id, seq,
    COALESCE(LAG(is_processed) OVER (PARTITION BY judged, `group`, `partition` ORDER BY `offset`), TRUE)
      AND COALESCE(LEAD(is_processed) OVER (PARTITION BY judged, `group`, `partition` ORDER BY `offset`), TRUE) AS is_alone
  FROM passed
) p ON p.judged = f.lane AND p.producer_id = f.producer_id AND p.seq = f.seq
WHERE f.anomaly = 'skipped_after_rebalance' AND (p.is_alone OR (f.seq IS NULL AND f.`offset` = COALESCE(e.last, -1) + 1))

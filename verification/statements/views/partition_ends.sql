-- By partition the last offset of the log, of what every consumer must be given of it (`visible_end`), of all reads, and
-- of the reads of read_uncommitted consumers; null without any.
--
-- keep: yes
SELECT
  e.lane, e.`partition`,
  MAX(e.log_end) AS log_end,
  CASE WHEN MAX(l.timeout_ms) IS NULL THEN MAX(e.log_end) ELSE MAX(e.visible_end) END AS visible_end,
  MAX(e.read_end) AS read_end,
  MAX(e.uncommitted_read_end) AS uncommitted_read_end
FROM (
  SELECT
    lane, `partition`, MAX(`offset`) AS log_end, CAST(NULL AS BIGINT) AS visible_end, CAST(NULL AS BIGINT) AS read_end,
    CAST(NULL AS BIGINT) AS uncommitted_read_end
  FROM log
  GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, NULL, MAX(`offset`), NULL, NULL FROM visible GROUP BY lane, `partition`
  UNION ALL
  SELECT
    c.lane, c.`partition`, NULL, NULL, MAX(c.`offset`),
    MAX(CASE WHEN i.isolation = 'read_uncommitted' THEN c.`offset` END)
  FROM consumed c
  LEFT JOIN isolation i ON i.lane = c.lane AND i.consumer = c.consumer
  GROUP BY c.lane, c.`partition`
) e
JOIN lanes l ON l.lane = e.lane
GROUP BY e.lane, e.`partition`

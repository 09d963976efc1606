-- By partition the first and the last offset of the log, of what every consumer must be given of it (`visible_end`), of all reads, of
-- those of consumers that are given what is not committed, too, and of read_committed ones; null without any.
SELECT
  e.lane, e.`partition`, MIN(e.log_start) AS log_start, MAX(e.log_end) AS log_end,
  CASE WHEN MAX(l.is_transactional) = 0 THEN MAX(e.log_end) ELSE MAX(e.visible_end) END AS visible_end,
  MAX(e.read_end) AS read_end, MAX(e.uncommitted_read_end) AS uncommitted_read_end,
  MAX(e.committed_read_end) AS committed_read_end
FROM (
  SELECT
    lane, `partition`, MIN(first) AS log_start, MAX(log_end) AS log_end, CAST(NULL AS BIGINT) AS visible_end, CAST(NULL AS BIGINT) AS read_end,
    CAST(NULL AS BIGINT) AS uncommitted_read_end, CAST(NULL AS BIGINT) AS committed_read_end
  FROM log_words
  GROUP BY lane, `partition`
  UNION ALL
  SELECT lane, `partition`, NULL, NULL, MAX(`offset`), NULL, NULL, NULL FROM visible GROUP BY lane, `partition`
  UNION ALL
  SELECT
    lane, `partition`, NULL, NULL, NULL, MAX(highest), MAX(CASE WHEN is_given_all = 1 THEN highest END),
    MAX(CASE WHEN isolation = 'read_committed' THEN highest END)
  FROM read_words
  GROUP BY lane, `partition`
) e
JOIN lanes l USING (lane)
GROUP BY e.lane, e.`partition`

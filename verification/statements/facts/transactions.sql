-- By transactional lane how many transactions there are, by what their producers learned, and transactional ids; the
-- assignments; the transactions of produced/ that transactions/ lacks; acknowledged records outside of transactions;
-- records read within transactions; the markers (null if replicas/ does not tell them from records); and when the last
-- transaction ended, null unless all did.
SELECT
  l.lane,
  COALESCE(t.n, 0) AS transactions, COALESCE(t.committed, 0) AS committed, COALESCE(t.aborted, 0) AS aborted,
  COALESCE(t.in_doubt, 0) AS in_doubt, COALESCE(a.n, 0) AS assignments, COALESCE(o.n, 0) AS unnamed,
  COALESCE(p.outside, 0) AS outside, COALESCE(c.n, 0) AS read_within, m.markers, t.ended_ns, COALESCE(t.ids, 0) AS ids
FROM lanes l
LEFT JOIN (
  SELECT
    lane, COUNT(*) AS n, COUNT_IF(outcome = 'committed') AS committed, COUNT_IF(outcome = 'aborted') AS aborted,
    COUNT_IF(outcome = 'info') AS in_doubt, COUNT(DISTINCT transactional_id) AS ids,
    CASE WHEN COUNT(*) = COUNT(end_ns) THEN MAX(end_ns) END AS ended_ns
  FROM transactions
  GROUP BY lane
) t USING (lane)
LEFT JOIN (SELECT lane, COUNT(*) AS n FROM assignments GROUP BY lane) a USING (lane)
LEFT JOIN (SELECT lane, COUNT_IF(transactional_id IS NULL) AS n FROM transaction_summaries GROUP BY lane) o USING (lane)
LEFT JOIN (
  SELECT lane, COUNT(*) AS outside FROM produced WHERE `transaction` IS NULL AND outcome = 'ok' GROUP BY lane
) p USING (lane)
LEFT JOIN (SELECT lane, COUNT(reading_transaction) AS n FROM consumed GROUP BY lane) c USING (lane)
LEFT JOIN (
  SELECT lane, CASE WHEN SUM(kinds) > 0 THEN CAST(SUM(CASE WHEN is_marker THEN n ELSE 0 END) AS BIGINT) END AS markers
  FROM writings
  GROUP BY lane
) m USING (lane)
WHERE l.is_transactional = 1

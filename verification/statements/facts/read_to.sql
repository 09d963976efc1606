-- By partition of a transactional lane the highest offset that a read_committed consumer read, and until when one was
-- assigned the partition that ended in order.
SELECT q.lane, q.`partition`, MAX(q.read_to) AS read_to, MAX(q.stayed_to) AS stayed_to
FROM (
  SELECT lane, `partition`, `offset` AS read_to, CAST(NULL AS BIGINT) AS stayed_to FROM committed_reads
  UNION ALL
  SELECT lane, `partition`, NULL, end_ns FROM assignments WHERE isolation = 'read_committed'
) q
JOIN lanes l USING (lane)
WHERE l.is_transactional = 1
GROUP BY q.lane, q.`partition`

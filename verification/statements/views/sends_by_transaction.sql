-- The rows of produced/ by transaction, as in `sent_blocks`.
SELECT
  lane, producer_id, `transaction`,
  SUM(n) AS n, MIN(first_seq) AS first_seq, MAX(last_seq) AS last_seq,
  MIN(first_ns) AS first_ns, MAX(last_ns) AS last_ns, MAX(answered_ns) AS answered_ns,
  SUM(sources) AS sources, SUM(backwards) AS backwards, SUM(timed) AS timed, SUM(untimed) AS untimed,
  SUM(refuted) AS refuted
FROM sent_blocks
GROUP BY lane, producer_id, `transaction`

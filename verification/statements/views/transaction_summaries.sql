-- Each transaction of produced/. `outcome`: what its producer was told, `committed`, `aborted` or `info` (also if
-- transactions/ lacks it). `sent`: its records that may have been written, those whose outcome is not `fail`;
-- `committed`: how many of these are committed in the final log. `first_seq`: its first record; `first_sent`: the first
-- one of `sent`; `first_lacking`: the first one of `sent` that is not committed. `sent_ns`: when the last record was
-- sent; `last_ns`: when its producer last sent or heard of one.
SELECT
  m.lane, m.producer_id, m.`transaction`,
  COALESCE(MAX(t.outcome), 'info') AS outcome,
  MAX(t.transactional_id) AS transactional_id,
  COUNT_IF(m.sent) AS sent,
  COUNT_IF(m.sent AND c.fate IS NOT NULL) AS committed,
  MIN(m.seq) AS first_seq,
  MIN(CASE WHEN m.sent THEN m.seq END) AS first_sent,
  MIN(CASE WHEN m.sent AND c.fate IS NULL THEN m.seq END) AS first_lacking,
  MAX(m.invoke_ns) AS sent_ns,
  MAX(COALESCE(m.complete_ns, m.invoke_ns)) AS last_ns
FROM transaction_records m
LEFT JOIN (SELECT DISTINCT lane, producer_id, seq, fate FROM written WHERE fate = 'commit') c
  USING (lane, producer_id, seq)
LEFT JOIN transactions t USING (lane, producer_id, `transaction`)
GROUP BY m.lane, m.producer_id, m.`transaction`

-- By lane, producer and transaction the rows of produced/; a producer's records without a transaction are one group. How
-- many there are, first and last number and time of sending, the last answer; how many name an input (`sources`), were
-- answered before they were sent (`backwards`), are acknowledged with and without a time, or are certainly not written
-- and have an offset (`refuted`).
SELECT
  lane, producer_id, `transaction`,
  COUNT(*) AS n, MIN(seq) AS first_seq, MAX(seq) AS last_seq,
  MIN(invoke_ns) AS first_ns, MAX(invoke_ns) AS last_ns, MAX(complete_ns) AS answered_ns,
  COUNT_IF(source_producer_id IS NOT NULL OR source_seq IS NOT NULL) AS sources,
  COUNT_IF(complete_ns < invoke_ns) AS backwards,
  COUNT_IF(outcome = 'ok' AND complete_ns IS NOT NULL) AS timed,
  COUNT_IF(outcome = 'ok' AND complete_ns IS NULL) AS untimed,
  COUNT_IF(outcome = 'fail' AND `offset` IS NOT NULL) AS refuted
FROM produced
GROUP BY lane, producer_id, `transaction`

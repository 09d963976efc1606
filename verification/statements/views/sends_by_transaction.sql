-- By lane, producer and transaction the rows of produced/; a producer's records without a transaction are one group. How
-- many there are, first and last number and time of sending, the last answer; how many name an input (`sources`), were
-- answered before they were sent (`backwards`), are acknowledged with and without a time, or are certainly not written
-- and have an offset (`refuted`).
SELECT
  lane, producer_id, `transaction`,
  SUM(n) AS n, MIN(first_seq) AS first_seq, MAX(last_seq) AS last_seq,
  MIN(first_ns) AS first_ns, MAX(last_ns) AS last_ns, MAX(answered_ns) AS answered_ns,
  SUM(sources) AS sources, SUM(backwards) AS backwards, SUM(timed) AS timed, SUM(untimed) AS untimed,
  SUM(refuted) AS refuted
FROM sent_blocks
GROUP BY lane, producer_id, `transaction`

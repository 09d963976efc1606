-- The rows of produced/ by block, 32 numbers of a producer, and by transaction, without one together: the bits of their
-- numbers, and of those whose outcome is not `fail` (`sent`); when the producer last sent or heard of one (`heard_ns`); how
-- many name an input (`sources`), were answered before they were sent (`backwards`), are acknowledged with and without a
-- time, or are certainly not written and have an offset (`refuted`).
SELECT
  lane, producer_id, `transaction`, block,
  BIT_OR(bit) AS numbers, BIT_OR(CASE WHEN outcome <> 'fail' THEN bit ELSE CAST(0 AS BIGINT) END) AS sent,
  COUNT(*) AS n, MIN(seq) AS first_seq, MAX(seq) AS last_seq,
  MIN(invoke_ns) AS first_ns, MAX(invoke_ns) AS last_ns, MAX(complete_ns) AS answered_ns,
  MAX(COALESCE(complete_ns, invoke_ns)) AS heard_ns,
  COUNT_IF(source_producer_id IS NOT NULL OR source_seq IS NOT NULL) AS sources,
  COUNT_IF(complete_ns < invoke_ns) AS backwards,
  COUNT_IF(outcome = 'ok' AND complete_ns IS NOT NULL) AS timed,
  COUNT_IF(outcome = 'ok' AND complete_ns IS NULL) AS untimed,
  COUNT_IF(outcome = 'fail' AND `offset` IS NOT NULL) AS refuted
FROM (
  SELECT *, SHIFTRIGHT(seq, 5) AS block, SHIFTLEFT(CAST(1 AS BIGINT), CAST(seq & 31 AS INT)) AS bit
  FROM produced
) q
GROUP BY lane, producer_id, `transaction`, block

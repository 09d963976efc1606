-- The rows of produced/ by block, 32 numbers of a producer: how many, the bits of their numbers, and when the last was sent.
SELECT
  lane, producer_id, seq DIV 32 AS block, COUNT(*) AS n,
  BIT_OR(SHIFTLEFT(CAST(1 AS BIGINT), CAST((seq % 32 + 32) % 32 AS INT))) AS numbers, MAX(invoke_ns) AS last_ns
FROM produced
GROUP BY lane, producer_id, seq DIV 32

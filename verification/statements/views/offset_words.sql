-- The words (32 offsets of a partition) of which records of the log or markers of transactions take offsets: how many
-- different ones, the first and the last.
--
-- keep: yes
SELECT
  lane, `partition`, `offset` DIV 32 AS word, MIN(`offset`) AS first, MAX(`offset`) AS last,
  BIT_COUNT(BIT_OR(SHIFTLEFT(CAST(1 AS BIGINT), CAST((`offset` % 32 + 32) % 32 AS INT)))) AS n
FROM (
  SELECT lane, `partition`, `offset` FROM log
  UNION ALL
  SELECT lane, `partition`, `offset` FROM replicas WHERE kind IN ('commit', 'abort')
) q
GROUP BY lane, `partition`, `offset` DIV 32

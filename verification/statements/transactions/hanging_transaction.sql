-- A partition ends within an open transaction, for longer than the transaction's time-out and 30 s.
--
-- The final log of the partition has a record that no marker of its transactional id follows. The time counts from when
-- its producer last heard of a record of that transaction, and from when the last fault was healed.
-- unit: partitions
-- row: the first open record
SELECT
  lane, `partition`, first.`offset` AS `offset`, first.producer_id AS producer_id, first.seq AS seq,
  'transaction ' || first.`transaction` || ' is still open' AS cause
FROM (
  SELECT lane, `partition`, MIN(STRUCT(`offset`, producer_id, seq, `transaction`)) AS first
  FROM open_records
  WHERE hangs
  GROUP BY lane, `partition`
) q

-- Dependencies between transactions: one has read a record of the other, or they are neighbours in a partition, where a
-- committed record follows another's. All other dependencies by the order in partitions follow from these.
SELECT lane, producer_id, `transaction`, to_producer_id, to_transaction FROM transaction_reads
UNION
SELECT lane, producer_id, `transaction`, to_producer_id, to_transaction
FROM (
  SELECT
    lane, producer_id AS to_producer_id, `transaction` AS to_transaction, LAG(producer_id) OVER in_turn AS producer_id,
    LAG(`transaction`) OVER in_turn AS `transaction`
  FROM written
  WHERE fate = 'commit'
  WINDOW in_turn AS (PARTITION BY lane, `partition` ORDER BY `offset`, producer_id, seq)
) q
WHERE producer_id <> to_producer_id OR `transaction` <> to_transaction

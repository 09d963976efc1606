-- Dependencies between transactions that are neighbours in a partition: a committed record follows another's. What is not
-- committed may lie between them. All other dependencies follow from these.
SELECT DISTINCT lane, before.producer_id AS producer_id, before.`transaction` AS `transaction`, to_producer_id, to_transaction
FROM (
  SELECT
    lane, producer_id AS to_producer_id, `transaction` AS to_transaction,
    LAG(STRUCT(producer_id, `transaction`)) OVER (
      PARTITION BY lane, `partition` ORDER BY `offset`, producer_id, seq
    ) AS before
  FROM written
  WHERE fate = 'commit'
) q
WHERE before IS NOT NULL AND (before.producer_id <> to_producer_id OR before.`transaction` <> to_transaction)

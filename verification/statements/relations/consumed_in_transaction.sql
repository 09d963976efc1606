-- of: consumed; rests: precommitted_read, dependency_cycle
SELECT
  c.lane, c.reading_producer_id AS producer_id, c.reading_transaction AS `transaction`, c.n,
  c.reading_producer_id IS NULL OR c.reading_transaction IS NULL
    AS `read within a transaction whose producer or number is missing`,
  c.reading_producer_id IS NOT NULL AND c.reading_transaction IS NOT NULL AND t.lane IS NULL
    AS `read within a transaction that transactions/ lacks`,
  -- The records of a batch are nanoseconds apart: the last ones may seem later than they were read.
  c.first_ns < t.begin_ns OR c.last_ns > t.end_ns + 1000000
    AS `read within a transaction, before it began or after it had ended`
FROM (
  SELECT
    lane, reading_producer_id, reading_transaction, COUNT(*) AS n, MIN(poll_ns) AS first_ns, MAX(poll_ns) AS last_ns
  FROM consumed
  WHERE reading_producer_id IS NOT NULL OR reading_transaction IS NOT NULL
  GROUP BY lane, reading_producer_id, reading_transaction
) c
LEFT JOIN transactions t
  ON t.lane = c.lane AND t.producer_id = c.reading_producer_id AND t.`transaction` = c.reading_transaction

-- By producer the lowest producer of its transactional id: incarnations share the markers that end transactions.
SELECT lane, producer_id, MIN(writer) AS writer
FROM (
  SELECT lane, producer_id, MIN(producer_id) OVER (PARTITION BY lane, transactional_id) AS writer FROM transactions
) q
GROUP BY lane, producer_id

-- A record was delivered with a delivery count above the limit of deliveries.
-- unit: identities
-- row: the place of the delivery with the highest count
SELECT lane, last.`partition` AS `partition`, last.`offset` AS `offset`, producer_id, seq,
  'delivered ' || last.delivery_count || ' times, at most ' || delivery_limit || ' allowed' AS cause
FROM (
  SELECT
    d.lane, d.producer_id, d.seq, s.delivery_limit, MAX(STRUCT(d.delivery_count, d.`partition`, d.`offset`)) AS last
  FROM deliveries d
  JOIN shares s USING (lane)
  LEFT SEMI JOIN known k USING (lane, producer_id, seq)
  WHERE d.delivery_count > s.delivery_limit
  GROUP BY d.lane, d.producer_id, d.seq, s.delivery_limit
) q

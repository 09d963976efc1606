-- A record was delivered with a delivery count above the limit of deliveries, or, where no fault hit the lane, more
-- releases of it than that were acknowledged at its place.
-- unit: identities
-- row: the place of the delivery with the highest count
SELECT lane, last.`partition` AS `partition`, last.`offset` AS `offset`, producer_id, seq,
  'delivered ' || last.n || ' times, at most ' || delivery_limit || ' allowed' AS cause
FROM (
  SELECT lane, producer_id, seq, delivery_limit, MAX(STRUCT(n, `partition`, `offset`)) AS last
  FROM (
    SELECT d.lane, d.producer_id, d.seq, d.`partition`, d.`offset`, s.delivery_limit, GREATEST(MAX(d.delivery_count),
        COUNT(DISTINCT CASE WHEN s.faults = 0 AND d.acknowledgement = 'release' AND d.outcome = 'ok' THEN d.delivered_ns END)
      ) AS n
    FROM deliveries d
    JOIN shares s USING (lane)
    LEFT SEMI JOIN known k USING (lane, producer_id, seq)
    GROUP BY d.lane, d.producer_id, d.seq, d.`partition`, d.`offset`, s.delivery_limit, s.faults
  ) q
  WHERE n > delivery_limit
  GROUP BY lane, producer_id, seq, delivery_limit
) q

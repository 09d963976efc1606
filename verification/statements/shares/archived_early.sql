-- A record lies before the last start offset that the share group reported, though no member accepted or rejected any of
-- its deliveries, whatever the answer, and its deliveries do not reach the limit.
--
-- To the highest delivery count that was seen are added the deliveries that nobody may have seen: two for each fault of
-- the lane, and for each member that crashed, froze, joined or left. Where these and a single delivery would reach the
-- limit, the prediction permits the anomaly, and none is added: every such record counts.
-- unit: identities
-- row: the place
SELECT lane, last.`partition` AS `partition`, last.`offset` AS `offset`, producer_id, seq,
  'delivered ' || last.delivery_count || ' times, and the group is past offset ' || past AS cause
FROM (
  SELECT
    d.lane, d.producer_id, d.seq, p.past, MAX(STRUCT(d.delivery_count, d.`partition`, d.`offset`)) AS last
  FROM deliveries d
  JOIN shares s USING (lane)
  JOIN share_spans p USING (lane, `partition`)
  LEFT SEMI JOIN known k USING (lane, producer_id, seq)
  LEFT ANTI JOIN (SELECT * FROM deliveries WHERE acknowledgement IN ('accept', 'reject')) a
    USING (lane, `partition`, `offset`)
  WHERE d.`offset` < p.past
  GROUP BY d.lane, d.`partition`, d.`offset`, d.producer_id, d.seq, p.past, s.delivery_limit, s.lost_deliveries
  HAVING MAX(d.delivery_count) < s.delivery_limit
    AND (MAX(d.delivery_count) + s.lost_deliveries < s.delivery_limit OR s.lost_deliveries + 1 >= s.delivery_limit)
) q

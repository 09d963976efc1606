-- A record lies before the last start offset that the share group reported, was rejected or delivered as often as the
-- limit allows, and no dead letter names its place.
--
-- A reject counts unless it was refused, and none does beside an accept that was not refused. A broker writes the letter
-- before it counts the record as done with: the group's start offset waits for it.
-- unit: identities
-- row: the place
SELECT lane, last.`partition` AS `partition`, last.`offset` AS `offset`, producer_id, seq,
  'given up after ' || last.delivery_count || ' deliveries' AS cause
FROM (
  SELECT d.lane, d.producer_id, d.seq, MAX(STRUCT(d.delivery_count, d.`partition`, d.`offset`)) AS last
  FROM deliveries d
  JOIN shares s ON s.lane = d.lane AND s.letters > 0
  JOIN share_spans p ON p.lane = d.lane AND p.`partition` = d.`partition` AND d.`offset` < p.past
  LEFT SEMI JOIN known k ON k.lane = d.lane AND k.producer_id = d.producer_id AND k.seq = d.seq
  LEFT ANTI JOIN dead_letters l ON l.lane = d.lane AND l.source_partition = d.`partition` AND l.source_offset = d.`offset`
  LEFT ANTI JOIN (SELECT * FROM deliveries WHERE acknowledgement = 'accept' AND outcome <> 'fail') a
    ON a.lane = d.lane AND a.`partition` = d.`partition` AND a.`offset` = d.`offset`
  GROUP BY d.lane, d.`partition`, d.`offset`, d.producer_id, d.seq, s.delivery_limit
  HAVING COUNT_IF(d.acknowledgement = 'reject' AND d.outcome <> 'fail') > 0 OR MAX(d.delivery_count) >= s.delivery_limit
) q

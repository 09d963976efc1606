-- of a record that the log does not hold at its offset
--
-- Where nothing that was committed gets lost, the log holds at each offset what it held when members were given it.
-- of: deliveries; rests: never_delivered, archived_early
SELECT d.lane, d.`partition`, d.`offset`
FROM deliveries d
JOIN lanes l ON l.lane = d.lane
LEFT ANTI JOIN log g
  ON g.lane = d.lane AND g.`partition` = d.`partition` AND g.`offset` = d.`offset` AND g.producer_id = d.producer_id
  AND g.seq = d.seq
WHERE l.final_log = 1 AND l.lossless = 1 AND l.cleaned = 0

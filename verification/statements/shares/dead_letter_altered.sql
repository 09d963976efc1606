-- A dead letter names no record of the group's topic, or one that no member rejected, whatever the answer, and that was
-- not delivered up to the limit, or was accepted before its lock ran out and no fault hit the lane; or it counts more
-- deliveries than the limit, or fewer than were seen though no fault hit the lane; or it holds another record or key than
-- that place, one though headers alone were asked for, or none though a copy was.
-- Deliveries that nobody may have seen count, as for `archived_early`. Where a fault hit the lane, or records are removed
-- from its log, a letter need not hold its record: a broker that can't read it writes the headers alone.
-- unit: dead letters
-- row: the place that the letter names
SELECT * FROM (
  SELECT
    l.lane, l.source_partition AS `partition`, l.source_offset AS `offset`, l.producer_id, l.seq,
    CASE
      WHEN l.source_offset IS NULL OR NOT l.source_group <=> s.`group` THEN 'it names no record of the group'
      WHEN COALESCE(d.rejects, 0) = 0 AND (COALESCE(d.n, 0) + s.lost_deliveries < s.delivery_limit
          OR (s.faults = 0 AND d.held_ns < s.lock_ns))
        THEN 'of a record that nobody rejected, delivered ' || COALESCE(d.n, 0) || ' times'
      WHEN l.delivery_count > s.delivery_limit OR (s.faults = 0 AND l.delivery_count < d.n)
        THEN 'it counts ' || l.delivery_count || ' deliveries of ' || COALESCE(d.n, 0)
      WHEN l.seq IS NULL AND s.copied = 1 THEN 'it holds no record'
      WHEN l.seq IS NOT NULL AND s.letters = 1 THEN 'it holds a record, though headers alone were asked for'
      WHEN l.seq IS NOT NULL AND e.lane IS NULL THEN 'it holds another record'
      WHEN l.seq IS NOT NULL AND p.key IS NOT NULL AND NOT l.key <=> p.key THEN 'it holds another key'
    END AS cause
  FROM dead_letters l
  JOIN shares s USING (lane)
  LEFT JOIN (
    SELECT lane, `partition`, `offset`, MAX(delivery_count) AS n, COUNT_IF(acknowledgement = 'reject') AS rejects,
      MIN(CASE WHEN acknowledgement = 'accept' AND outcome = 'ok' THEN complete_ns - asked_ns END) AS held_ns
    FROM deliveries GROUP BY lane, `partition`, `offset`
  ) d ON d.lane = l.lane AND d.`partition` = l.source_partition AND d.`offset` = l.source_offset
  LEFT JOIN (
    SELECT lane, `partition`, `offset`, producer_id, seq FROM deliveries
    UNION SELECT lane, `partition`, `offset`, producer_id, seq FROM log
  ) e ON e.lane = l.lane AND e.`partition` = l.source_partition AND e.`offset` = l.source_offset
    AND e.producer_id = l.producer_id AND e.seq = l.seq
  LEFT JOIN produced p ON p.lane = l.lane AND p.producer_id = l.producer_id AND p.seq = l.seq
) q
WHERE cause IS NOT NULL

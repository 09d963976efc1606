-- A partition ends within an open transaction, for longer than the transaction's time-out and 30 s.
--
-- The final log of the partition has a record that no marker of its transactional id follows. The time counts from when
-- its producer last heard of a record of that transaction, and from when the last fault was healed. Brokers look for
-- such transactions every 10 s, and a new coordinator first loads its log.
--
-- unit: partitions
-- row: the first open record
SELECT
  e.lane, e.`partition`, e.`offset`, e.producer_id, e.seq, 'transaction ' || e.`transaction` || ' is still open' AS cause
FROM open_ends e
JOIN lanes l ON l.lane = e.lane
JOIN last_moments h ON h.lane = e.lane
WHERE h.ns - GREATEST(l.healed_ns, e.last_ns) > :slack_ns + l.timeout_ms * 1000000

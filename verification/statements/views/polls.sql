-- The reads of produced records in the order of polling, at one moment by offset and identity, with the offset that the
-- consumer read before in the partition, when, and the lowest that it had read by then. Left out are those in the middle
-- of a range that was read offset by offset, one after the other.
--
-- keep: yes
SELECT lane, consumer, `partition`, `offset`, producer_id, seq, poll_ns, previous, previous_ns, lowest
FROM (
  SELECT
    c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq, c.poll_ns,
    LAG(c.`offset`) OVER (
      PARTITION BY c.lane, c.consumer, c.`partition` ORDER BY c.poll_ns, c.`offset`, c.producer_id, c.seq
    ) AS previous,
    LAG(c.poll_ns) OVER (
      PARTITION BY c.lane, c.consumer, c.`partition` ORDER BY c.poll_ns, c.`offset`, c.producer_id, c.seq
    ) AS previous_ns,
    LEAD(c.`offset`) OVER (
      PARTITION BY c.lane, c.consumer, c.`partition` ORDER BY c.poll_ns, c.`offset`, c.producer_id, c.seq
    ) AS next,
    MIN(c.`offset`) OVER (
      PARTITION BY c.lane, c.consumer, c.`partition` ORDER BY c.poll_ns, c.`offset`, c.producer_id, c.seq
      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ) AS lowest
  FROM consumed c
  LEFT ANTI JOIN phantoms p ON p.lane = c.lane AND p.producer_id = c.producer_id AND p.seq = c.seq
) q
WHERE previous IS NULL OR next IS NULL OR `offset` <> previous + 1 OR next <> `offset` + 1 OR poll_ns = previous_ns

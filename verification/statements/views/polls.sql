-- The reads of produced records in the order of polling, at one moment by offset and identity, with the offset that the
-- consumer read before in the partition, and the lowest that it had read by then.
--
-- tables: reads
-- keep: yes
SELECT
  *,
  LAG(`offset`) OVER (PARTITION BY lane, consumer, `partition` ORDER BY poll_ns, `offset`, producer_id, seq) AS previous,
  MIN(`offset`) OVER (
    PARTITION BY lane, consumer, `partition` ORDER BY poll_ns, `offset`, producer_id, seq
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
  ) AS lowest
FROM reads

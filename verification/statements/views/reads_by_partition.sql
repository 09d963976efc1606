-- By consumer and partition its rows of consumed/: how many, the last offset, the first and the last time of polling.
--
-- keep: yes
SELECT
  lane, consumer, `partition`, COUNT(*) AS n, MAX(`offset`) AS last, MIN(poll_ns) AS first_ns, MAX(poll_ns) AS last_ns
FROM consumed
GROUP BY lane, consumer, `partition`

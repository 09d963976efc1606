-- read by a consumer of the group's lane that assignments/ lacks, beside another one
-- of: consumed; rests: of_groups
-- One that follows another, whose last read was before its first, is its next life. One that comes and goes is told of.
SELECT lane, MAX(consumer) AS consumer, SUM(n) AS n
FROM (
  SELECT
    lane, consumer, n, first_ns,
    MAX(last_ns) OVER (PARTITION BY lane ORDER BY first_ns, consumer ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
      AS others_until_ns
  FROM (
    SELECT g.lane, r.consumer, SUM(r.n) AS n, MIN(r.first_ns) AS first_ns, MAX(r.last_ns) AS last_ns
    FROM (SELECT DISTINCT lane FROM `groups`) g
    JOIN reads_by_partition r USING (lane)
    LEFT ANTI JOIN assignments k USING (lane, consumer)
    LEFT ANTI JOIN passing p USING (lane, consumer)
    GROUP BY g.lane, r.consumer
  ) u
) q
WHERE first_ns <= others_until_ns
GROUP BY lane

-- of: consumed
SELECT
  r.lane, r.consumer, r.`partition`, r.n,
  r.first_ns < l.begun_ns OR (l.planned = 1 AND r.last_ns > l.ended_ns)
    AS `read before the run began, or after its phase had ended`,
  r.last > e.last AND l.lossless = 1 AS `read past the end of the log`,
  k.consumer IS NOT NULL AND a.consumer IS NULL
    AS `read by a consumer that was not assigned the partition`, -- rests: of_groups
  r.first_ns < a.start_ns OR r.last_ns > a.end_ns
    AS `read before the consumer was assigned the partition, or after that had ended` -- rests: of_groups
FROM reads_by_partition r
JOIN lanes l USING (lane)
LEFT JOIN log_ends e USING (lane, `partition`)
LEFT JOIN (SELECT DISTINCT lane, consumer FROM assignments) k ON k.lane = r.lane AND k.consumer = r.consumer
LEFT JOIN (
  SELECT lane, consumer, `partition`, MAX(start_ns) AS start_ns, MIN(end_ns) AS end_ns
  FROM assignments
  GROUP BY lane, consumer, `partition`
) a
  ON a.lane = r.lane AND a.consumer = r.consumer AND a.`partition` = r.`partition`

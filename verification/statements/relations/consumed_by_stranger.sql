-- read by a consumer of the group's lane that assignments/ lacks, beside another one
-- of: consumed; rests: of_groups
SELECT u.lane, MAX(u.consumer) AS consumer, SUM(u.n) AS n
FROM (
  SELECT r.lane, r.consumer, SUM(r.n) AS n
  FROM (SELECT DISTINCT lane FROM `groups`) g
  JOIN reads_by_partition r USING (lane)
  LEFT JOIN (SELECT DISTINCT lane, consumer FROM assignments) k ON k.lane = r.lane AND k.consumer = r.consumer
  WHERE k.consumer IS NULL
  GROUP BY r.lane, r.consumer
) u
GROUP BY u.lane
HAVING COUNT(*) > 1

-- read by a consumer that was not assigned the partition
-- of: consumed; rests: of_groups
SELECT r.lane, r.consumer, r.`partition`, r.n
FROM (SELECT DISTINCT lane, consumer FROM assignments) k
JOIN reads_by_partition r ON r.lane = k.lane AND r.consumer = k.consumer
LEFT JOIN assignments a ON a.lane = r.lane AND a.consumer = r.consumer AND a.`partition` = r.`partition`
WHERE a.consumer IS NULL

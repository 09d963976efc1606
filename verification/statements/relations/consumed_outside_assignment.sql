-- read before the consumer was assigned the partition, or after that had ended
-- of: consumed; rests: of_groups
SELECT r.lane, r.consumer, r.`partition`, r.n
FROM assignments a
JOIN reads_by_partition r USING (lane, consumer, `partition`)
WHERE r.first_ns < a.start_ns OR r.last_ns > a.end_ns

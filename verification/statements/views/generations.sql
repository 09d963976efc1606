-- The newest generation in which a consumer of a group had a partition.
SELECT judged, `group`, consumer, `partition`, MAX(generation) AS generation
FROM group_assignments
GROUP BY judged, `group`, consumer, `partition`

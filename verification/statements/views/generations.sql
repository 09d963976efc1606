-- The generation in which a consumer of a group had a partition: a consumer has one alone.
SELECT judged, `group`, consumer, `partition`, MAX(generation) AS generation
FROM group_assignments
GROUP BY judged, `group`, consumer, `partition`

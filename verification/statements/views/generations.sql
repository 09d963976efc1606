-- The `oldest` and the `newest` generation in which a consumer of a group had a partition.
SELECT judged, `group`, consumer, `partition`, MIN(generation) AS oldest, MAX(generation) AS newest
FROM group_assignments
GROUP BY judged, `group`, consumer, `partition`

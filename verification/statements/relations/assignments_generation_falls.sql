-- a generation below 0, or before an earlier one of its member
-- of: assignments; rests: of_groups
SELECT lane, consumer
FROM (
  SELECT
    lane, consumer, generation,
    LAG(generation) OVER (PARTITION BY lane, `group`, member ORDER BY start_ns, generation) AS earlier
  FROM assignments
  WHERE generation IS NOT NULL
) a
WHERE generation < 0 OR generation < earlier

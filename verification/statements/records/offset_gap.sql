-- The final log of a lane without compaction has a hole between its first and last offset; an offset that a marker of a
-- transaction takes is not missing.
--
-- The offsets of a word (`log_words`) without a hole count as one range.
-- unit: missing offsets
-- row: each missing offset; one row for a hole wider than 10,000
-- needs: log
SELECT
  lane, `partition`, EXPLODE(SEQUENCE(first, CASE WHEN width <= :widest_listed_gap THEN last ELSE first END)) AS `offset`,
  'hole from offset ' || first || ' to ' || last AS cause,
  CASE WHEN width <= :widest_listed_gap THEN 1 ELSE width END AS units
FROM (
  SELECT lane, `partition`, previous + 1 AS first, begins - 1 AS last, begins - previous - 1 AS width
  FROM (
    SELECT lane, `partition`, begins, LAG(ends) OVER (PARTITION BY lane, `partition` ORDER BY begins) AS previous
    FROM (
      SELECT lane, `partition`, first AS begins, last AS ends FROM log_words WHERE taken = last - first + 1
      UNION ALL
      SELECT DISTINCT q.lane, q.`partition`, q.`offset`, q.`offset`
      FROM (
        SELECT lane, `partition`, `offset` FROM log
        UNION ALL
        SELECT lane, `partition`, `offset` FROM markers
      ) q
      JOIN log_words w ON w.lane = q.lane AND w.`partition` = q.`partition` AND w.word = q.`offset` DIV 32
      WHERE w.taken <> w.last - w.first + 1
    ) q
  ) q
) q
WHERE width > 0

-- Two dead letters, at two places of their topic, name the place of one record.
-- unit: (partition, offset)
-- row: the record's place
SELECT lane, source_partition AS `partition`, source_offset AS `offset`, n || ' dead letters' AS cause
FROM (
  SELECT lane, source_partition, source_offset, COUNT(DISTINCT STRUCT(`partition`, `offset`)) AS n
  FROM dead_letters
  WHERE source_offset IS NOT NULL
  GROUP BY lane, source_partition, source_offset
  HAVING COUNT(DISTINCT STRUCT(`partition`, `offset`)) > 1
) q

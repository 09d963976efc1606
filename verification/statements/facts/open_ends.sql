-- Where the log ends within a transaction: by partition the first record of one that hangs, or else of an open one.
SELECT
  lane, `partition`, COALESCE(MIN(CASE WHEN hangs THEN `offset` END), MIN(`offset`)) AS `offset`, MAX(hangs) AS hangs
FROM open_records
GROUP BY lane, `partition`
ORDER BY lane, `partition`

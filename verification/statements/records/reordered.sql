-- Per producer and partition, in offset order, first occurrences are not in `seq` order.
--
-- Several records at one offset count in the order of `seq`.
--
-- unit: descents between neighbours
-- row: the record after the descent
SELECT lane, `partition`, `offset`, producer_id, seq, 'after seq ' || previous AS cause
FROM (
  SELECT
    *,
    LAG(seq) OVER (PARTITION BY lane, `partition`, producer_id ORDER BY `offset`, seq) AS previous
  FROM (
    SELECT lane, `partition`, producer_id, seq, MIN(`offset`) AS `offset`
    FROM stored
    GROUP BY lane, `partition`, producer_id, seq
    UNION ALL
    SELECT lane, `partition`, producer_id, seq, `offset` FROM clean_log
  ) q
) q
WHERE seq < previous

-- The transactions of which a read_committed consumer was given some records and not others: of the committed records
-- between the lowest and the highest offset that it read in a partition, it read some only. `first`: the first record
-- that it was not given, and the consumer.
SELECT lane, producer_id, `transaction`, first.seq AS seq, first.consumer AS consumer
FROM (
  SELECT lane, producer_id, `transaction`, MIN(STRUCT(seq, consumer)) AS first
  FROM (
    SELECT
      s.lane, s.consumer, w.producer_id, w.`transaction`,
      COUNT(r.`offset`) AS records_given,
      MIN(CASE WHEN r.`offset` IS NULL THEN w.seq END) AS seq
    FROM written w
    JOIN (
      SELECT lane, consumer, `partition`, MIN(`offset`) AS lowest, MAX(`offset`) AS highest
      FROM committed_reads
      GROUP BY lane, consumer, `partition`
    ) s ON s.lane = w.lane AND s.`partition` = w.`partition`
    LEFT JOIN (SELECT DISTINCT lane, consumer, `partition`, `offset` FROM committed_reads) r
      ON r.lane = s.lane AND r.consumer = s.consumer AND r.`partition` = s.`partition` AND r.`offset` = w.`offset`
    WHERE w.fate = 'commit' AND w.sent AND w.`offset` BETWEEN s.lowest AND s.highest
    GROUP BY s.lane, s.consumer, w.producer_id, w.`transaction`
  ) q
  WHERE records_given > 0 AND seq IS NOT NULL
  GROUP BY lane, producer_id, `transaction`
) q

-- KAFKA-15591: the lost record is one of those first messages of its producer to a partition that the client reported as
-- acknowledged because a later one was.
--
-- No broker answered for them, so they have no offset. None that was acknowledged with an offset comes before them.
SELECT s.number, s.defect
FROM suspected s
JOIN (
  SELECT
    lane, producer_id, `partition`, seq, ROW_NUMBER() OVER (PARTITION BY lane, producer_id, `partition` ORDER BY seq) AS place
  FROM (
    SELECT
      lane, producer_id, `partition`, seq, `offset`,
      MIN(CASE WHEN `offset` IS NOT NULL THEN seq END) OVER (PARTITION BY lane, producer_id, `partition`) AS first_placed
    FROM produced
    WHERE outcome = 'ok' AND `partition` IS NOT NULL
  ) q
  WHERE `offset` IS NULL AND (first_placed IS NULL OR seq < first_placed)
) u ON u.lane = s.lane AND u.producer_id = s.producer_id AND u.`partition` = s.of_partition AND u.seq = s.seq
WHERE s.rule = 'acknowledged_implicitly' AND s.anomaly = 'lost_write' AND u.place <= s.messages

-- What the members of each group were given: the reads of its consumers.
SELECT a.judged, a.`group`, c.lane, c.consumer, a.member, c.`partition`, c.`offset`, c.producer_id, c.seq, c.poll_ns
FROM consumed c
JOIN (
  SELECT judged, `group`, lane, consumer, MAX(member) AS member FROM group_assignments GROUP BY judged, `group`, lane, consumer
) a USING (lane, consumer)

-- What the members of each group were given: the reads of its consumers.
SELECT a.judged, a.`group`, c.lane, c.consumer, c.`partition`, c.`offset`, c.producer_id, c.seq, c.poll_ns
FROM consumed c
JOIN (SELECT DISTINCT judged, `group`, lane, consumer FROM group_assignments) a USING (lane, consumer)

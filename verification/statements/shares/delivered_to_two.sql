-- A member (b) asked for a record after another one (a) had been given it, and was given it before a sent its
-- acknowledgement, and before the lock of a had run out, which counts from when a had asked.
--
-- A delivery that was never acknowledged, or whose acknowledgement was refused, holds nothing: its member, or the session
-- that it had with the leader, may have been gone.
-- unit: pairs of deliveries
-- row: the record
SELECT
  a.lane, a.`partition`, a.`offset`, b.producer_id, b.seq, a.member || ' and ' || b.member AS cause
FROM deliveries a
JOIN shares s USING (lane)
JOIN deliveries b ON b.lane = a.lane AND b.`partition` = a.`partition` AND b.`offset` = a.`offset`
  AND b.producer_id = a.producer_id AND b.seq = a.seq AND b.member <> a.member
LEFT SEMI JOIN known k ON k.lane = a.lane AND k.producer_id = a.producer_id AND k.seq = a.seq
WHERE b.asked_ns > a.delivered_ns AND b.delivered_ns < a.invoke_ns AND b.delivered_ns < a.asked_ns + s.lock_ns
  AND a.outcome <> 'fail'

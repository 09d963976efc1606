-- A member asked for a record and was given it while another member held it: after the other had it, before the other
-- acknowledged it, and within the duration of the lock from the moment on at which the other had asked for it.
--
-- A delivery that was never acknowledged holds nothing: its member may have been gone.
--
-- unit: pairs of deliveries
-- row: the record
SELECT
  a.lane, a.`partition`, a.`offset`, b.producer_id, b.seq, a.member || ' and ' || b.member AS cause
FROM deliveries a
JOIN shares s ON s.lane = a.lane
JOIN deliveries b ON b.lane = a.lane AND b.`partition` = a.`partition` AND b.`offset` = a.`offset` AND b.member <> a.member
WHERE b.asked_ns > a.delivered_ns AND b.delivered_ns < a.invoke_ns AND b.delivered_ns < a.asked_ns + s.lock_ns

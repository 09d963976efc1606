-- The transactions whose end their client awaited for a second or more, or asked for in vain, where bounds are known.
SELECT t.lane, t.transactional_id, t.begin_ns, t.end_ns
FROM transactions t
JOIN lanes l USING (lane)
WHERE l.timed = 1
  AND CASE WHEN t.end_ns IS NULL THEN t.error IS NOT NULL ELSE t.end_ns - t.begin_ns >= 1000000000 END

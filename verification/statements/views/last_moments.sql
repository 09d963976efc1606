-- The last moment of the history of each transactional lane.
--
-- keep: yes
SELECT q.lane, MAX(q.ns) AS ns
FROM (
  SELECT lane, MAX(GREATEST(invoke_ns, COALESCE(complete_ns, 0))) AS ns FROM produced GROUP BY lane
  UNION ALL
  SELECT lane, MAX(poll_ns) FROM consumed GROUP BY lane
  UNION ALL
  SELECT lane, MAX(GREATEST(begin_ns, COALESCE(end_ns, 0))) FROM transactions GROUP BY lane
) q
JOIN lanes l ON l.lane = q.lane
WHERE l.is_transactional = 1
GROUP BY q.lane

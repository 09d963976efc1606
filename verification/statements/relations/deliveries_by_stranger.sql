-- given to, or a start offset told to, a member that never began by events.jsonl, or only later
-- of: deliveries; rests: of_shares
SELECT d.lane, d.member, d.n
FROM (
  SELECT lane, `group`, member, COUNT(*) AS n, MIN(COALESCE(asked_ns, delivered_ns)) AS ns FROM deliveries GROUP BY lane, `group`, member
  UNION ALL
  SELECT lane, `group`, member, COUNT(*), MIN(invoke_ns) FROM share_starts GROUP BY lane, `group`, member
) d
JOIN lanes l USING (lane)
LEFT JOIN members m USING (`group`, member)
WHERE l.planned = 1 AND (m.begun_ns IS NULL OR d.ns < m.begun_ns)

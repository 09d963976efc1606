-- given to, or a start offset told to, a member that never began by events.jsonl
-- of: deliveries; rests: of_shares
SELECT d.lane, d.member, d.n
FROM (
  SELECT lane, `group`, member, COUNT(*) AS n FROM deliveries GROUP BY lane, `group`, member
  UNION ALL
  SELECT lane, `group`, member, COUNT(*) FROM share_starts GROUP BY lane, `group`, member
) d
JOIN lanes l USING (lane)
LEFT ANTI JOIN members m USING (`group`, member)
WHERE l.planned = 1

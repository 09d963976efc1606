-- a start offset past the end of the log
-- of: share_starts; rests: of_shares
SELECT s.lane, s.member, s.`partition`, s.`offset`
FROM share_starts s
JOIN lanes l USING (lane)
LEFT JOIN log_ends e USING (lane, `partition`)
WHERE l.final_log = 1 AND l.lossless = 1 AND s.`offset` > COALESCE(e.last, -1) + 1

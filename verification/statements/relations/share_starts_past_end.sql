-- a start offset past the end of the log
-- of: share_starts; rests: of_shares
SELECT s.lane, s.member, s.`partition`, s.`offset`
FROM share_starts s
JOIN lanes l ON l.lane = s.lane
LEFT JOIN log_ends e ON e.lane = s.lane AND e.`partition` = s.`partition`
WHERE l.final_log = 1 AND l.lossless = 1 AND s.`offset` > COALESCE(e.last, -1) + 1

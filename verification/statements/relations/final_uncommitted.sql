-- a committed offset that no member committed, or past the end of the log
-- of: groups.json; rests: of_commits
SELECT g.judged AS lane, f.`group`, f.`partition`
FROM `final` f
JOIN `groups` g USING (`group`)
JOIN lanes l USING (lane)
LEFT JOIN log_ends e USING (lane, `partition`)
LEFT ANTI JOIN (SELECT * FROM commits WHERE outcome <> 'fail') c USING (`group`, `partition`, `offset`)
WHERE g.automatic = 0 OR (f.`offset` > COALESCE(e.last, -1) + 1 AND l.lossless = 1)

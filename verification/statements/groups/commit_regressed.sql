-- A commit is acknowledged whose offset is lower than that of the last one acknowledged before it was sent.
-- unit: commits
-- row: the lower offset
SELECT
  judged AS lane, `partition`, shown AS `offset`,
  consumer || ' committed behind ' || known.`offset` || ', by ' || known.consumer AS cause
FROM prior_commits
WHERE what = 'commit' AND shown < known.`offset`

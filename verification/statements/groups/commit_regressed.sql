-- A commit was acknowledged although its offset is behind one that had been acknowledged before it was sent.
--
-- Counted in commits.
--
-- unit: commit
-- tables: prior_commits
SELECT
  judged AS lane, `partition`, shown AS `offset`,
  consumer || ' committed behind ' || known.`offset` || ', by ' || known.consumer AS cause
FROM prior_commits
WHERE what = 'commit' AND shown < known.`offset`

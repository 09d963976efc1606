-- A commit is acknowledged whose offset is lower than that of the last one acknowledged before it was sent; not if its member
-- went on from the offset of another commit that may have taken effect later.
-- unit: commits
-- row: the lower offset
SELECT
  judged AS lane, `partition`, shown AS `offset`,
  consumer || ' committed behind ' || known.`offset` || ', by ' || known.consumer AS cause
FROM behind
WHERE what = 'commit'

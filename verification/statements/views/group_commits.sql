-- The commits of each group; `judged`: the lane that the group belongs to. Whether the group commits in transactions,
-- and only after it has read (`after`), and whether what it reads has gaps.
SELECT g.judged, g.in_transaction, g.after, g.gaps, c.*
FROM commits c
JOIN `groups` g ON g.`group` = c.`group`

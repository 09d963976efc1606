-- The commits of offsets of each group, with how the group commits: in transactions or not, and only after it has read
-- (`after`) or not; and whether the offset after a record's may be no record's (`gaps`). `judged`: the group's lane.
-- keep: no
SELECT g.judged, g.in_transaction, g.after, g.gaps, c.*
FROM commits c
JOIN `groups` g ON g.`group` = c.`group`

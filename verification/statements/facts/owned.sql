-- From when to when a member of a group had a partition, in lanes whose bounds of recovery are known.
SELECT a.judged AS lane, a.`group`, a.`partition`, a.start_ns, a.end_ns
FROM group_assignments a
JOIN lanes l ON l.lane = a.judged
WHERE l.timed = 1

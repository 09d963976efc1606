-- The assignments of each group; `judged`: the lane that the group belongs to, `lane`: the lane that it reads.
SELECT g.judged, g.`group`, g.lane, a.consumer, a.member, a.generation, g.by_epoch, a.`partition`, a.start_ns, a.end_ns
FROM assignments a
JOIN `groups` g USING (`group`, lane)

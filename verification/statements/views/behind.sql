-- The moments of `prior_commits` that show less than was known to be committed, unless another commit may have taken effect
-- later: that of the offset from which the member went on since (`began`), or of what is committed in the end.
--
-- A member that keeps a partition through a rebalance goes on where it was. Not all that a client commits by itself is known,
-- and where offsets have gaps, the next record may be further on: there, a commit of any lower offset may have been it. One
-- of an older generation is refused; in a transaction, older brokers do not ask for the generation.
SELECT q.*
FROM (
  SELECT
    p.judged, p.`group`, p.`partition`, p.what, p.consumer, p.shown, p.until_ns, p.known,
    CASE WHEN p.what = 'commit' THEN MIN(r.`offset`) ELSE LEAST(p.shown, COALESCE(MIN(r.`offset`), p.shown)) END AS began
  FROM prior_commits p
  LEFT JOIN (SELECT DISTINCT judged, `group`, consumer, member FROM processed) m
    ON m.judged = p.judged AND m.`group` = p.`group` AND m.consumer = p.consumer
  LEFT JOIN processed r
    ON r.judged = p.judged AND r.`group` = p.`group` AND r.`partition` = p.`partition` AND r.member = m.member
    AND r.poll_ns > p.known.complete_ns AND r.poll_ns <= p.until_ns
  WHERE p.shown < p.known.`offset`
  GROUP BY p.judged, p.`group`, p.`partition`, p.what, p.consumer, p.shown, p.until_ns, p.known
) q
JOIN `groups` g ON g.judged = q.judged AND g.`group` = q.`group`
LEFT ANTI JOIN effects o
  ON o.judged = q.judged AND o.`group` = q.`group` AND o.`partition` = q.`partition` AND o.outcome <> 'fail'
  AND q.began <= q.shown AND (o.`offset` <> q.known.`offset` OR o.invoke_ns <> q.known.invoke_ns)
  AND (o.`offset` = q.began OR (o.`offset` < q.began AND (g.automatic = 1 OR (g.gaps = 1 AND q.what <> 'end'))))
  AND (g.in_transaction = 1 OR NOT COALESCE(o.generation < q.known.generation, FALSE))
  AND (o.outcome <> 'ok' OR o.complete_ns IS NULL OR o.complete_ns > q.known.invoke_ns)
  AND (q.until_ns IS NULL OR o.invoke_ns < q.until_ns)

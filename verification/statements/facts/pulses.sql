-- What happened in each second to the records of a partition, in lanes whose bounds of recovery are known: they were sent,
-- acknowledged, given up, read, or sent and never answered (`tables.facts.Pulse`). `reader`: the group that read them, or a
-- consumer that comes and goes. The offsets are those of the first and the last moment, and the highest; null where nobody knows them.
SELECT
  lane, what, reader, `partition`, first.ns AS first_ns, last.ns AS last_ns, asked_ns,
  CASE WHEN first.`offset` >= 0 THEN first.`offset` END AS first_offset,
  CASE WHEN last.`offset` >= 0 THEN last.`offset` END AS last_offset, CASE WHEN highest >= 0 THEN highest END AS highest
FROM (
  SELECT
    q.lane, q.what, q.reader, q.`partition`, MIN(STRUCT(q.ns, q.`offset`)) AS first, MAX(STRUCT(q.ns, q.`offset`)) AS last,
    MIN(q.asked_ns) AS asked_ns, MAX(q.`offset`) AS highest
  FROM (
    SELECT
      lane, 'sent' AS what, '' AS reader, `partition`, invoke_ns AS ns, CAST(-1 AS BIGINT) AS `offset`,
      invoke_ns AS asked_ns
    FROM produced
    UNION ALL
    SELECT
      lane,
      CASE WHEN complete_ns IS NULL THEN 'unanswered' WHEN outcome = 'ok' THEN 'acknowledged' ELSE 'given up' END,
      '', `partition`, COALESCE(complete_ns, invoke_ns),
      CASE WHEN complete_ns IS NOT NULL AND outcome = 'ok' THEN COALESCE(`offset`, -1) ELSE -1 END, invoke_ns
    FROM produced
    UNION ALL
    SELECT c.lane, 'read', COALESCE(NULLIF(a.reader, ''), p.consumer, ''), c.`partition`, c.poll_ns, c.`offset`, NULL
    FROM consumed c
    LEFT JOIN (
      SELECT lane, consumer, COALESCE(MAX(`group`), '') AS reader FROM assignments GROUP BY lane, consumer
    ) a USING (lane, consumer)
    LEFT JOIN passing p ON p.lane = c.lane AND p.consumer = c.consumer
    UNION ALL
    SELECT lane, 'read', `group`, `partition`, delivered_ns, `offset`, NULL
    FROM deliveries
  ) q
  JOIN lanes l USING (lane)
  WHERE l.timed = 1
  GROUP BY q.lane, q.what, q.reader, q.`partition`, q.ns DIV 1000000000
) q

-- Moments at which a group's committed offset of a partition shows, each with the last commit that was acknowledged before
-- it (`known`, null if there is none): a member's start with the first offset that it was given, a commit's sending with
-- its offset, and the end of the run with the offset that was committed then.
--
-- `what`: start, commit or end. `ns`: the moment, null for the end; `until_ns`: until when it may have changed.
SELECT judged, `group`, `partition`, what, consumer, shown, ns, until_ns, known
FROM (
  SELECT
    *,
    LAST_VALUE(acknowledged) IGNORE NULLS OVER (
      PARTITION BY judged, `group`, `partition`
      ORDER BY COALESCE(ns, 9223372036854775807), is_answer, acknowledged.`offset`, acknowledged.invoke_ns, acknowledged.consumer
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) AS known
  FROM (
    SELECT
      judged, `group`, `partition`, 'answer' AS what, consumer, `offset` AS shown, complete_ns AS ns,
      complete_ns AS until_ns, 1 AS is_answer,
      STRUCT(consumer, `offset`, invoke_ns, complete_ns, generation) AS acknowledged
    FROM effects
    WHERE outcome = 'ok' AND complete_ns IS NOT NULL
    UNION ALL
    SELECT judged, `group`, `partition`, 'commit', consumer, `offset`, invoke_ns, invoke_ns, 0, NULL
    FROM effects
    WHERE outcome = 'ok' AND complete_ns IS NOT NULL
    UNION ALL
    SELECT a.judged, a.`group`, a.`partition`, 'start', a.consumer, MIN(p.`offset`), a.start_ns, MIN(p.poll_ns), 0, NULL
    FROM group_assignments a
    JOIN processed p USING (judged, `group`, consumer, `partition`)
    GROUP BY a.judged, a.`group`, a.`partition`, a.consumer, a.start_ns
    UNION ALL
    SELECT g.judged, g.`group`, f.`partition`, 'end', NULL, f.`offset`, NULL, NULL, 0, NULL
    FROM `final` f
    JOIN `groups` g USING (`group`)
  ) q
) q
WHERE is_answer = 0

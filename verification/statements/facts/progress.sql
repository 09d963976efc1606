-- By group and partition how far members processed and committed (`progress`).
SELECT judged, `group`, `partition`, processed_from, processed_to, committed_from, acknowledged, final
FROM progress
ORDER BY `partition`

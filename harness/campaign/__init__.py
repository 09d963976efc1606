"""Campaigns: many runs, one after the other, within one budget. One file, the record of runs, lists them all.

`nightly`, `atlas`, `hunt` and `shrink` differ only in which run comes next. So there is one loop (`loop.py`) and four
policies. A policy is a generator: it yields an attempt, gets the attempt's outcome, and ends when it has no further
attempt. So a search such as delta debugging reads from top to bottom, though another module runs the clusters, counts
the time, and says when no time is left.

- In turn (`in_turn.py`): each experiment of a list, again and again.
- At random (`atlas.py`): the combinations of a plan, the least tried ones first.
- Towards findings (`hunting.py`): what was tried least, and what led to something that no run had shown.
- Towards fewer faults (`narrowing.py`): a finding's lane beside its controls, with the fewest and shortest faults
  (`shrinking.py`) of the schedule that its run realised (`realised.py`).

`counted_campaign.py` counts what a campaign's runs showed, and writes the summary. The record of runs (`record.py`) has
a line for each lane of each run, of all campaigns. The page of `atlas` shows the record by cell (`cells.py`).
"""

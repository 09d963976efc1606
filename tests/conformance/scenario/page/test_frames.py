"""What the steps in words tell: the columns of an act, and every replica that changed."""

from __future__ import annotations

from kafka_chaos.conformance.scenario.page.frames import columns_of, tell_columns
from tests.conformance.scenario.samples import act, look, replica, step, truncation


def test_columns_are_the_steps_that_changed_something() -> None:
    (played,) = truncation().acts
    columns = columns_of(played)
    assert [column.number for column in columns] == [1, 3, 4, 5]
    assert [number for column in columns for number, _ in column.sentences] == [0, 1, 2, 3, 4, 5]
    assert columns[-1].cells[1].gone == ((1, "M2", 0),)
    assert not columns[-1].cells[2].gone
    assert columns[-1].partition == "leader 2, epoch 1; ISR 1 2 3"


def test_sentences_after_the_last_change_stand_with_it() -> None:
    record = truncation()
    (played,) = record.acts
    played.steps.append(step(6, "Every broker knows.", played.steps[-1].observation))
    last = columns_of(played)[-1]
    assert (last.number, last.sentences) == (5, ((5, "X is restarted."), (6, "Every broker knows.")))


def test_told_in_words_only_what_changed() -> None:
    (played,) = truncation().acts
    reported = tell_columns(played, columns_of(played))
    assert reported[1].startswith(
        "2. Y's and Z's fetches no longer reach X. 3. A producer sends M2 with acks=1. X (broker 1) leads:"
    )
    assert "Y (broker 2)" not in reported[1]
    assert "X (broker 1) does not run: M1 (epoch 0) M2 (epoch 0), high watermark 1." in reported[2]


def test_two_views_of_the_leader_are_told() -> None:
    reported = {1: replica("m·0", leader=2), 2: replica("m·0", leader=1), 3: replica("m·0", leader=0)}
    seen = look(reported, leader=2, epoch=1)
    played = act(step(0, "The leader is moved to Y, which does not learn of it.", seen), step(1, "Nothing.", seen))
    (line,) = tell_columns(played, columns_of(played))
    assert "Y (broker 2) sees leader 1: m (epoch 0)" in line


def test_records_of_a_log_without_leader_epochs_have_none() -> None:
    led, other = replica("m·-1", role="leader"), replica("m·-1")
    played = act(step(0, "Before leader epochs.", look({1: led, 2: other, 3: other})))
    (line,) = tell_columns(played, columns_of(played))
    assert "X (broker 1) leads: m, high watermark 1." in line

"""How messages name what they count."""

from kafka_chaos.contract.command.errors import UsageFailure, shortened


def test_what_a_user_wrote_never_hides_what_a_message_says_of_it() -> None:
    for name in ("x" * 5_000, "long name " * 500):
        message = str(UsageFailure(f"bad.yaml:3: lanes[0].lane: {name!r} is not valid: expected a short name"))
        assert len(message) <= 501
        assert message.startswith("bad.yaml:3: lanes[0].lane: '")
        assert message.endswith("is not valid: expected a short name")


def test_a_message_of_many_lines_says_how_many_it_leaves_out() -> None:
    *lines, last = shortened("\n".join(["y" * 300 + " z" * 50] * 40)).splitlines()
    assert last == f"… and {40 - len(lines)} more lines"
    assert len("\n".join(lines)) <= 1_900
    assert shortened("one\ntwo") == "one\ntwo"

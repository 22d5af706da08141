"""What commands have in common."""

from lonnymq.commands import BatchGet, MessageCancel, MessageGet


def test_commands_are_equal_if_they_are_the_same_call() -> None:
    assert MessageGet(1) == MessageGet(id=1)
    assert MessageGet(1) != MessageGet(2)
    assert len({repr(call) for call in (MessageGet(1), MessageCancel(1), BatchGet(1))}) == 3
    assert MessageGet(1) != MessageCancel(1), "they have the same parameters"


def test_a_command_shows_its_parameters() -> None:
    assert repr(MessageGet(7)) == "MessageGet(id=7)"

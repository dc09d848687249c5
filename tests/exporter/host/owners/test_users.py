"""Names of users: looked up in the background, once."""

import os
import pwd

import pytest

from rightslice.exporter.host.owners import users
from rightslice.exporter.host.owners.users import UserNames, account_name


def test_the_system_names_this_user() -> None:
    assert account_name(os.getuid()) in (pwd.getpwuid(os.getuid()).pw_name, str(os.getuid()))


@pytest.mark.parametrize("user_id", [987_654_321, 2**40])
def test_a_user_without_a_name_is_a_number(user_id: int) -> None:
    assert account_name(user_id) == str(user_id)


def test_a_name_is_there_after_the_lookup() -> None:
    asked: list[int] = []

    def look_up(user_id: int) -> str:
        asked.append(user_id)
        return f"user-{user_id}"

    names = UserNames(look_up)

    assert names.name(7) is None
    names.look_up_wanted()
    assert names.name(7) == "user-7"
    names.look_up_wanted()
    assert (names.look_up_now(7), asked) == ("user-7", [7])


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(users, "MOST_REMEMBERED", 2)
    names = UserNames(str)
    for user_id in range(4):
        names.look_up_now(user_id)

    assert [names.name(user_id) for user_id in range(4)] == [None, None, "2", "3"]

"""Names of the node's users."""

import pwd
from collections.abc import Callable

MOST_REMEMBERED = 4096


def account_name(user_id: int) -> str:
    """Ask the system for a user's name; the number as text for one that it does not know."""
    try:
        return pwd.getpwuid(user_id).pw_name
    except (KeyError, OverflowError):
        return str(user_id)


class UserNames:
    """The names that were looked up. A directory such as LDAP may let `look_up` wait for long.

    So `name` only asks for a lookup, in any thread, and `look_up_wanted` makes it, in one.
    """

    def __init__(self, look_up: Callable[[int], str] = account_name) -> None:
        self._look_up = look_up
        self._names: dict[int, str] = {}
        self._wanted: set[int] = set()

    def name(self, user_id: int) -> str | None:
        """Name a user; None for one that has not been looked up yet."""
        found = self._names.get(user_id)
        if found is None:
            self._wanted.add(user_id)
        return found

    def look_up_now(self, user_id: int) -> str:
        """Name a user at once, however long it takes."""
        if user_id not in self._names:
            while len(self._names) >= MOST_REMEMBERED:
                del self._names[next(iter(self._names))]
            self._names[user_id] = self._look_up(user_id)
        return self._names[user_id]

    def look_up_wanted(self) -> None:
        """Look up who was asked for."""
        wanted, self._wanted = self._wanted, set()
        for user_id in sorted(wanted):
            self.look_up_now(user_id)

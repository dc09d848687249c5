"""Looks up targets in the DNS, in the background: a server that is slow delays nothing."""

import logging
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import dns.exception
import dns.rdatatype
import dns.resolver

from rightslice.feeders.targets.target import NameQuery

log = logging.getLogger(__name__)

LOOK_UP_SECONDS = 5.0
MOST_LOOK_UPS_AT_ONCE = 16
FAMILIES = {"A": socket.AF_INET, "AAAA": socket.AF_INET6}
# What the resolver says when there is no such name, or none with such an address.
ABSENT = {socket.EAI_ADDRFAMILY, socket.EAI_NODATA, socket.EAI_NONAME}


class NameUnavailableError(Exception):
    """A name could not be looked up now; what was found before stands."""


# A query -> addresses as HOST:PORT; none where there is no such name. Raises NameUnavailableError.
LookUp = Callable[[NameQuery], list[str]]


def look_up(
    query: NameQuery, make_resolver: Callable[[], dns.resolver.Resolver] = dns.resolver.Resolver
) -> list[str]:
    """Ask the system's resolver for addresses, and the DNS for SRV records.

    Raises NameUnavailableError.
    """
    if query.port is None:
        return _services(query.name, make_resolver)
    try:
        found = socket.getaddrinfo(
            query.name, query.port, FAMILIES[query.record], socket.SOCK_STREAM
        )
    except socket.gaierror as error:
        if error.errno in ABSENT:
            return []
        raise NameUnavailableError(str(error.strerror)) from error
    except (OSError, UnicodeError) as error:
        raise NameUnavailableError(str(error)) from error
    hosts = sorted({str(address[0]) for *_, address in found})
    return [f"[{host}]:{query.port}" if ":" in host else f"{host}:{query.port}" for host in hosts]


def _services(name: str, make_resolver: Callable[[], dns.resolver.Resolver]) -> list[str]:
    try:
        # Made anew each time: /etc/resolv.conf may have changed.
        answer = make_resolver().resolve(name, "SRV", lifetime=LOOK_UP_SECONDS, search=True)
    except (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer):
        return []
    except (dns.exception.DNSException, OSError) as error:
        raise NameUnavailableError(str(error)) from error
    return sorted(f"{str(row.target).rstrip('.')}:{row.port}" for row in answer)


@dataclass(slots=True)
class _Watch:
    """One name: what was found last, and whether somebody is asking now."""

    due_seconds: float = float("-inf")
    addresses: list[str] = field(default_factory=list)
    problem: str = ""
    is_asking: bool = False


class TargetNames:
    """The names that groups ask for, each looked up at its own refresh interval."""

    def __init__(self, look_up: LookUp = look_up) -> None:
        self._look_up = look_up
        self._watches: dict[NameQuery, _Watch] = {}
        self._mutex = threading.Lock()

    def look(
        self, query: NameQuery, now_seconds: float, *, is_forced: bool = False
    ) -> tuple[list[str], str]:
        """Give what is known of a name by now, and what is wrong with it; never waits."""
        with self._mutex:
            watch = self._watches.setdefault(query, _Watch())
            asking_count = sum(watch.is_asking for watch in self._watches.values())
            is_due = is_forced or now_seconds >= watch.due_seconds
            if is_due and not watch.is_asking and asking_count < MOST_LOOK_UPS_AT_ONCE:
                watch.is_asking = True
                watch.due_seconds = now_seconds + query.refresh_seconds
                # A daemon: the system's resolver may take its time, and cannot be told to stop.
                threading.Thread(target=self._ask, args=(query, watch), daemon=True).start()
            return watch.addresses, watch.problem

    def forget_others(self, queries: Iterable[NameQuery]) -> None:
        """Drop names that no group asks for any more."""
        kept = set(queries)
        with self._mutex:
            self._watches = {q: watch for q, watch in self._watches.items() if q in kept}

    def _ask(self, query: NameQuery, watch: _Watch) -> None:
        what = f"{query.record} records of {query.name}"
        try:
            addresses, problem = self._look_up(query), ""
            if not addresses:
                problem = f"the DNS has no {what}"
        except NameUnavailableError as error:
            addresses, problem = watch.addresses, f"{what} cannot be looked up: {error}"
        except Exception as error:  # this thread's end must not leave the name asked for ever
            log.exception("looking up %s failed", what)
            addresses, problem = watch.addresses, f"{what} cannot be looked up: {error}"
        with self._mutex:
            watch.addresses, watch.problem, watch.is_asking = addresses, problem, False

"""Targets out of the DNS: a real name server on loopback, the system's resolver, and silence."""

import threading

import dns.resolver
import pytest
from support.dns_server import Zone, name_server
from support.waiting import wait_for

from rightslice.feeders.targets import names as names_module
from rightslice.feeders.targets.names import NameUnavailableError, TargetNames, look_up
from rightslice.feeders.targets.target import NameQuery

SERVICE = "_gpu._tcp.fleet.test"
SRV = NameQuery(SERVICE, "SRV", None, 30.0)


def test_srv_records_tell_host_and_port() -> None:
    zone = Zone()
    zone.services[SERVICE] = [(19400, "n2.fleet.test."), (9400, "n1.fleet.test.")]

    with name_server(zone) as resolver:
        found = look_up(SRV, lambda: resolver)

    assert found == ["n1.fleet.test:9400", "n2.fleet.test:19400"]


def test_a_name_that_is_not_there_has_no_targets() -> None:
    with name_server(Zone()) as resolver:
        assert look_up(SRV, lambda: resolver) == []


def test_a_server_that_does_not_answer_is_not_a_name_without_targets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    zone = Zone()
    zone.is_silent = True
    monkeypatch.setattr(names_module, "LOOK_UP_SECONDS", 0.3)

    with (
        name_server(zone) as resolver,
        pytest.raises(NameUnavailableError, match="lifetime expired"),
    ):
        look_up(SRV, lambda: resolver)


def test_a_machine_without_a_resolver_says_so() -> None:
    def none() -> dns.resolver.Resolver:
        raise dns.resolver.NoResolverConfiguration

    with pytest.raises(NameUnavailableError):
        look_up(SRV, none)


def test_addresses_come_from_the_systems_own_resolver() -> None:
    assert look_up(NameQuery("localhost", "A", 9400, 30.0)) == ["127.0.0.1:9400"]
    assert look_up(NameQuery("127.0.0.1", "A", 9400, 30.0)) == ["127.0.0.1:9400"]
    assert look_up(NameQuery("::1", "AAAA", 9400, 30.0)) == ["[::1]:9400"]
    assert look_up(NameQuery("127.0.0.1", "AAAA", 9400, 30.0)) == []


def test_a_name_that_no_name_can_be_is_told() -> None:
    with pytest.raises(NameUnavailableError):
        look_up(NameQuery("a" * 300, "A", 9400, 30.0))


def test_a_name_is_asked_again_after_its_interval_and_keeps_what_it_had_when_that_fails() -> None:
    answers: list[list[str] | NameUnavailableError] = [
        ["n1:1"],
        NameUnavailableError("no answer"),
        ["n2:2"],
    ]
    asked: list[str] = []

    def scripted(query: NameQuery) -> list[str]:
        asked.append(query.name)
        answer = answers[len(asked) - 1]
        if isinstance(answer, NameUnavailableError):
            raise answer
        return answer

    names = TargetNames(scripted)
    wait_for(lambda: names.look(SRV, 0.0)[0] == ["n1:1"])
    names.look(SRV, 29.0)
    count_before_its_time = len(asked)
    problem = wait_for(lambda: names.look(SRV, 30.0)[1])
    kept = names.look(SRV, 31.0)[0]
    wait_for(lambda: names.look(SRV, 61.0) == (["n2:2"], ""))

    assert count_before_its_time == 1
    assert problem == f"SRV records of {SERVICE} cannot be looked up: no answer"
    assert kept == ["n1:1"]


def test_a_name_without_records_loses_its_targets_and_says_so() -> None:
    answers = iter([["n1:1"], []])
    names = TargetNames(lambda _: next(answers))
    wait_for(lambda: names.look(SRV, 0.0)[0])

    problem = wait_for(lambda: names.look(SRV, 30.0)[1])

    assert problem == f"the DNS has no SRV records of {SERVICE}"
    assert names.look(SRV, 31.0)[0] == []


def test_a_hung_look_up_delays_no_other_and_is_not_asked_twice() -> None:
    release, hung_count = threading.Event(), []

    def scripted(query: NameQuery) -> list[str]:
        if query.name == "hung":
            hung_count.append(1)
            release.wait(20.0)
        return [f"{query.name}:1"]

    names = TargetNames(scripted)
    hung, good = (NameQuery(name, "A", 1, 1.0) for name in ("hung", "good"))
    for now_seconds in range(5):
        names.look(hung, float(now_seconds))
        wait_for(lambda: names.look(good, 0.0)[0] == ["good:1"])

    assert names.look(hung, 9.0) == ([], "")
    assert len(hung_count) == 1
    release.set()
    wait_for(lambda: names.look(hung, 0.0)[0] == ["hung:1"])


def test_at_most_so_many_names_are_asked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names_module, "MOST_LOOK_UPS_AT_ONCE", 2)
    release, running = threading.Event(), []

    def scripted(query: NameQuery) -> list[str]:
        running.append(query.name)
        release.wait(20.0)
        return [query.name]

    names = TargetNames(scripted)
    queries = [NameQuery(str(number), "A", 1, 1.0) for number in range(5)]
    for query in queries:
        names.look(query, 0.0)
    running_at_once = len(running)
    release.set()

    assert running_at_once <= 2
    wait_for(lambda: all(names.look(query, 0.0)[0] for query in queries))

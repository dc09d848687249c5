"""A name server on loopback that answers what a test tells it to."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import dns.flags
import dns.message
import dns.rcode
import dns.resolver
import dns.rrset

TTL_SECONDS = 5


class Zone:
    """SRV records by name: (port, host). A name that is not there does not exist."""

    def __init__(self) -> None:
        self.services: dict[str, list[tuple[int, str]]] = {}
        self.is_silent = False
        self.question_count = 0

    def answer(self, question: bytes) -> bytes:
        asked = dns.message.from_wire(question)
        answer = dns.message.make_response(asked)
        answer.flags |= dns.flags.RA
        name = asked.question[0].name
        found = self.services.get(name.to_text(omit_final_dot=True))
        if found is None:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            rows = [f"0 0 {port} {host}" for port, host in found]
            answer.answer.append(dns.rrset.from_text(name, TTL_SECONDS, "IN", "SRV", *rows))
        return answer.to_wire()


@contextmanager
def name_server(zone: Zone) -> Iterator[dns.resolver.Resolver]:
    """Serve a zone; gives a resolver that asks it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        thread = threading.Thread(target=_serve, args=(listening, zone))
        thread.start()
        resolver = dns.resolver.Resolver(configure=False)
        resolver.nameservers = ["127.0.0.1"]
        resolver.port = listening.getsockname()[1]
        try:
            yield resolver
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as last:
                last.sendto(b"", listening.getsockname())
            thread.join()


def _serve(listening: socket.socket, zone: Zone) -> None:
    while True:
        question, client = listening.recvfrom(4096)
        if not question:
            return
        zone.question_count += 1
        if not zone.is_silent:
            listening.sendto(zone.answer(question), client)

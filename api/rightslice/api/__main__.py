"""The program `rightslice`: finds the command that was asked for and runs it."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points, version

from rightslice.api.command import Command, Exit, add_common_flags, say, with_surroundings
from rightslice.catalogue.located_yaml import DocumentError
from rightslice.feeders.prometheus.answer import SourceError
from rightslice.ledger.ledger import LedgerError

COMMAND_GROUP = "rightslice.commands"


def commands() -> dict[str, Command]:
    """Load every command that is installed."""
    found = (entry.load() for entry in entry_points(group=COMMAND_GROUP))
    return {command.name: command for command in sorted(found, key=lambda one: one.name)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; every failure that a user can mend ends in one sentence and a code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    known = commands()
    top = argparse.ArgumentParser(
        prog="rightslice",
        description="See what a GPU fleet wastes, and which slice or cheaper card would do.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"rightslice {version('rightslice')}")
    subparsers = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {}
    for name, command in known.items():
        parser = subparsers.add_parser(
            name, help=command.help, description=command.help, allow_abbrev=False
        )
        add_common_flags(parser)
        command.add_flags(parser)
        parsers[name] = parser
    try:
        if arguments and arguments[0] in known:
            name, rest = arguments[0], arguments[1:]
            arguments = [name, *with_surroundings(parsers[name], rest, os.environ)]
        given = top.parse_args(arguments)
        return known[given.command].run(given)
    except DocumentError as error:
        say(str(error))
        return Exit.BAD_USAGE
    except SourceError as error:
        say(str(error))
        return Exit.SOURCE_UNREADABLE
    except LedgerError as error:
        say(str(error))
        return Exit.LEDGER_UNUSABLE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # the reader, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK


if __name__ == "__main__":
    sys.exit(main())

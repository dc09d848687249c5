"""The ledger's tables, as numbered migrations: a file is brought up to date, step by step.

A migration that has been released is never edited: files made by it are brought up to date from
what it says.
"""

from rightslice.ledger.migration_1 import MIGRATION_1
from rightslice.ledger.migration_2 import MIGRATION_2

MIGRATIONS: tuple[str, ...] = (MIGRATION_1, MIGRATION_2)
SCHEMA_VERSION = len(MIGRATIONS)

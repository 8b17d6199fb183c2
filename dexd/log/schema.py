"""The schema of the log: a forward-only sequence of SQL files, each run once, in a transaction of its own.

Every database records the files it has run with their checksums. One that has run a file this release does not know,
or knows with another content, is refused before anything is written to it [SURF-12].
"""

import hashlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import resources

import msgspec

from dexd.log.errors import LogDamagedError

APPLICATION_ID = 0x64657864
"""The letters "dexd" in the header of the file, which tell a log from any other SQLite database."""

_FILE_NAME = re.compile(r"(?P<version>\d{4})_\w+\.sql")

_RECORD = """
    CREATE TABLE IF NOT EXISTS migrations (
        version  INTEGER PRIMARY KEY,
        name     TEXT NOT NULL,
        checksum TEXT NOT NULL
    ) STRICT
"""


class Migration(msgspec.Struct, frozen=True):
    """One file of the sequence."""

    version: int
    """Counts from 1 without a gap; the database's `user_version` is that of its last migration."""
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """What shows that the file was edited after it ran."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


@cache
def known_migrations() -> Sequence[Migration]:
    """The files of this release, in order; read once, for a running server stays what it is while it is upgraded."""
    found = []
    for file in resources.files("dexd.migrations").iterdir():
        matched = _FILE_NAME.fullmatch(file.name)
        if matched is not None:
            found.append(Migration(int(matched["version"]), file.name, file.read_text(encoding="utf-8")))
    found.sort(key=lambda migration: migration.version)
    assert [migration.version for migration in found] == list(range(1, len(found) + 1)), "migrations have a gap"
    return tuple(found)


def check_header(connection: sqlite3.Connection, known: Sequence[Migration]) -> int:
    """Give the number of migrations that the database has run; 0 for a new file.

    Raises:
        LogDamagedError: it is no log, or one that this release must not touch.
        sqlite3.Error: its header cannot be read.
    """
    applied = _applied_checksums(connection)
    if len(applied) > len(known):
        raise LogDamagedError(
            f"{_file_of(connection)} was written by a newer release: it has schema {len(applied)}, "
            f"this release knows {len(known)}"
        )
    for migration, checksum in zip(known, applied, strict=False):
        if migration.checksum != checksum:
            raise LogDamagedError(
                f"{_file_of(connection)} has run another content of {migration.name}: checksum {checksum}, "
                f"this release has {migration.checksum}"
            )
    return len(applied)


def schema_of(connection: sqlite3.Connection) -> int:
    """The number of migrations that a log has run, whether this release knows them or not; 0 for a new file.

    Raises:
        LogDamagedError: it is no log.
        sqlite3.Error: its header cannot be read.
    """
    return len(_applied_checksums(connection))


def migrate(connection: sqlite3.Connection, known: Sequence[Migration]) -> None:
    """Bring the schema up to date; a migration that fails leaves nothing behind.

    Raises:
        LogDamagedError: as `check_header`.
        sqlite3.Error: a migration cannot run, be it for lack of space.
    """
    for migration in known[check_header(connection, known) :]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            _run(connection, migration)
            connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")


def _applied_checksums(connection: sqlite3.Connection) -> Sequence[str]:
    """The checksums of the migrations that have run, in order."""
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (schema_version,) = connection.execute("PRAGMA user_version").fetchone()
    (objects,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not application_id and not schema_version and not objects:
        return ()
    if application_id != APPLICATION_ID:
        raise LogDamagedError(f"{_file_of(connection)} is an SQLite database, but not a log of this server")
    rows = connection.execute("SELECT version, checksum FROM migrations ORDER BY version").fetchall()
    if [version for version, _ in rows] != list(range(1, schema_version + 1)):
        raise LogDamagedError(f"{_file_of(connection)} has schema {schema_version}, but records {len(rows)} migrations")
    return [checksum for _, checksum in rows]


def _run(connection: sqlite3.Connection, migration: Migration) -> None:
    if migration.version == 1:
        connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        connection.execute(_RECORD)
    for statement in _statements(migration.sql):
        connection.execute(statement)
    connection.execute(
        "INSERT INTO migrations (version, name, checksum) VALUES (?, ?, ?)",
        (migration.version, migration.name, migration.checksum),
    )
    connection.execute(f"PRAGMA user_version = {migration.version}")


def _statements(sql: str) -> Iterator[str]:
    """Split a script; a line holds the end of one statement at most.

    `executescript` would commit before it runs, and so leave half a migration behind.
    """
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
    if statement.strip():
        yield statement


def _file_of(connection: sqlite3.Connection) -> str:
    (_, _, path) = connection.execute("PRAGMA database_list").fetchone()
    return str(path)

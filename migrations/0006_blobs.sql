-- Large values lie in a directory of their own; here is who refers to them [BLOB-4], and who may [BLOB-3].
-- Digests are SHA-256.

-- Which events of a stream refer to a value is found again from the events; a value that is in no row is an orphan.
CREATE TABLE blobs (
    stream_id INTEGER NOT NULL,
    digest    BLOB    NOT NULL,
    size      INTEGER NOT NULL,
    PRIMARY KEY (stream_id, digest)
) STRICT, WITHOUT ROWID;

CREATE INDEX blobs_by_digest ON blobs (digest);

-- What clients and workers have uploaded within the last day, by the digest of the key of their session.
CREATE TABLE uploads (
    session BLOB    NOT NULL,
    digest  BLOB    NOT NULL,
    at      INTEGER NOT NULL,
    PRIMARY KEY (session, digest)
) STRICT, WITHOUT ROWID;

-- What search reads [SEARCH-3]: facts of the run that its row did not have, and index values, which are written in the
-- transaction of the events that changed them [ATTR-11].

ALTER TABLE runs ADD COLUMN parent_flow_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN schedule_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN last_error TEXT NOT NULL DEFAULT ''; -- of an open run: as of the last search that looked
ALTER TABLE runs ADD COLUMN superseded INTEGER NOT NULL DEFAULT 0; -- a later run goes on with the execution

-- Search shows the latest run of each execution, newest start first. Every start pays for the first three, unless it
-- ends in the same commit; only what did not complete pays for the last.
CREATE INDEX runs_by_start_time ON runs (started_at DESC, flow_id) WHERE superseded = 0;
CREATE INDEX runs_by_type ON runs (flow_type, started_at DESC, flow_id) WHERE superseded = 0;
CREATE INDEX runs_running ON runs (started_at DESC, flow_id) WHERE superseded = 0 AND status = 1;
CREATE INDEX runs_not_completed ON runs (status, started_at DESC, flow_id) WHERE superseded = 0 AND status > 2;

-- One type for each key on the whole server [ATTR-10]; no projection, because keys are also named without a value.
CREATE TABLE index_keys (
    key  TEXT    PRIMARY KEY,
    type INTEGER NOT NULL -- as in dexd/core/index_values.py
) STRICT, WITHOUT ROWID;

-- Values that are compared. Keys that begin with sys: are what Steps do, as of the last search that looked.
CREATE TABLE index_values (
    stream_id INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    position  INTEGER NOT NULL, -- among the elements of an array, from 0
    value     ANY     NOT NULL,
    PRIMARY KEY (stream_id, key, position)
) STRICT, WITHOUT ROWID;

CREATE INDEX index_values_by_value ON index_values (key, value, stream_id);

-- Texts that are searched by word.
CREATE TABLE index_texts (
    text_id   INTEGER PRIMARY KEY,
    stream_id INTEGER NOT NULL,
    key       TEXT    NOT NULL,
    value     TEXT    NOT NULL,
    words     TEXT    NOT NULL, -- of the value, as the index has them
    UNIQUE (stream_id, key)
) STRICT;

CREATE VIRTUAL TABLE index_words USING fts5 (
    words,
    content = 'index_texts',
    content_rowid = 'text_id',
    tokenize = 'ascii'
);

CREATE TRIGGER index_texts_inserted AFTER INSERT ON index_texts BEGIN
    INSERT INTO index_words (rowid, words) VALUES (new.text_id, new.words);
END;

CREATE TRIGGER index_texts_deleted AFTER DELETE ON index_texts BEGIN
    INSERT INTO index_words (index_words, rowid, words) VALUES ('delete', old.text_id, old.words);
END;

-- What tokens of result pages are signed with, so that only this log's own are taken [SEARCH-8].
-- Drawn when a server opens the log.
CREATE TABLE page_secret (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    secret BLOB    NOT NULL
) STRICT;

"""Large values by content: the store's port, its implementations, and what is kept in it for how long [BLOB-1..5].

Neither events nor frames are known here; `dexd.core.blobs` has the references that stand for the values.
"""

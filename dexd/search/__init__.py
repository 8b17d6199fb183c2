"""The query language of search [SEARCH-1]: text to syntax, syntax to a checked query, what a query says of one Flow.

Pure: no IO, no clocks, no SQL. The log compiles checked queries to SQL; here they are also evaluated one row at a time,
for logs in memory and for batch jobs that look again at one Flow.
"""

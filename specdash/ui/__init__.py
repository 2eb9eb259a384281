"""The dashboard: pages, and what they share.

::

    pages/       one file a page: read inputs, ask for records, show them
    data         the database, schema gate, reads cached by revision, the worker
    components   page guard, badges, empty states, exports
    charts       records -> figure
    format       numbers, units, times, words; words: states, verdicts, flags
    board, comparison, tokens, rows, repeat    pure helpers of single pages
"""

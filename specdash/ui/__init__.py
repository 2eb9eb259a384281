"""The dashboard: pages, and what they share.

::

    pages/       one file a page: read inputs, ask for records, show them
    gate, data   schema, worker; reads cached by the store's revision
    components   page guard, empty states, charts with titles, exports
    live, verdicts, tables, arms_form, checks      parts of pages
    experiment_parts, self_check                   parts of one page, of several
    charts, ratios, trend, matrix (palette)        records -> figure
    format, words, equality                        numbers and units; states, verdicts, flags
    background                                     long work in a thread of its own
    board, rows, pair_rows, tokens, drafts, memory, export, repeat, demo    helpers of pages
"""

"""The dashboard: pages, and what they share.

::

    pages/       one file a page: read inputs, ask for records, show them
    gate, data   schema, worker; reads cached by the store's revision
    components   page guard, empty states, charts with titles, exports
    live, verdicts, tables, arms_form, checks      parts of pages
    charts, ratios, trend (palette)                records -> figure
    format, words                                  numbers and units; states, verdicts, flags
    board, rows, tokens, export, repeat, demo      pure helpers of single pages
"""

"""Drafters: whatever proposes tokens for the target to check.

::

    base.py           Drafter protocol, Chain of drafters
    factory.py        arm -> chain
    ngram_hash.py     hashes of all n-grams of a growing history
    ngram_simple.py  ngram_map.py  ngram_map_k.py  ngram_map_k4v.py  ngram_mod.py
    ngram_cache.py  prompt_lookup.py  draft_simple.py      one method each
    replay.py         counters of an arm on a text that is already there
    replay_file.py    the JSON and JSON Lines input of ``python -m specdash replay``
    model_replay.py   the same for a draft model, from its recorded guesses

Imports go to ``specdash.domain`` and ``specdash.errors`` only.
"""

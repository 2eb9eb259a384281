"""GGUF files without their weights: where they lie, what their headers say, which one is which.

::

    reader.py   bounded streaming parser: bytes -> RawHeader
    header.py   RawHeader -> HeaderFacts, the record the store keeps
    shape.py    HeaderFacts -> the shape a memory estimate reads
    fit.py      whether two headers can be target and draft
    content.py  content hash of a model, sampled above 1 GiB
    child.py    reads headers in a child process with limits on memory and time
    scan.py     walks folders, joins split files
    places.py   where LM Studio, llama.cpp, Hugging Face and the demo package keep models

Nothing here imports llama_cpp, and nothing keeps a token list in memory.
"""

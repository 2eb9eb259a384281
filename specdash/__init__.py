"""Does speculative decoding pay on this machine, and which draft pays most?

Packages, and the one direction imports may take::

    domain  <-  drafting, gguf, store, engines  <-  worker, advisor  <-  cli, ui

``domain`` is pure: no I/O, no SQL, no Streamlit, no llama_cpp.
llama_cpp is imported lazily and only in child processes.
``tests/test_imports.py`` holds both rules.
"""

__version__ = "0.1.0"

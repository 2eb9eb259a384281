"""Engines behind one protocol (``base``). llama_cpp is imported only inside child processes."""

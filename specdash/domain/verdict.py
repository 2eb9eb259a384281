"""The four verdict words and the sentence that carries them (METHOD 6)."""

from enum import Enum


class Verdict(Enum):
    """Words are what people read and what ``--json`` prints."""

    FASTER = "faster"
    SLOWER = "slower"
    NO_DIFFERENCE = "no practical difference"
    NOT_RESOLVED = "not resolved"

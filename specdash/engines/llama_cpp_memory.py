"""What the models of this process take, looked at after each of them is loaded."""

import psutil

from specdash.engines.llama_cpp_devices import free_device_bytes
from specdash.engines.process_memory import peak_rss_bytes


class MemoryMeter:
    """Bytes of this process; on GPUs what became less free since the meter was made."""

    def __init__(self) -> None:
        self._device_free = free_device_bytes()

    def device_bytes(self) -> int | None:
        """``None`` without a GPU that tells, or where others have given memory back meanwhile."""
        now = free_device_bytes()
        if self._device_free is None or now is None or now > self._device_free:
            return None
        return self._device_free - now

    def read(self) -> dict[str, int | None]:
        """As an environment record holds it; :class:`~specdash.domain.loaded.Loaded` reads it."""
        return {
            "rss_bytes": int(psutil.Process().memory_info().rss),
            "peak_rss_bytes": peak_rss_bytes(),
            "device_bytes": self.device_bytes(),
        }

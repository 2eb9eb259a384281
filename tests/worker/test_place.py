"""Where an experiment runs, and what is known of that machine."""

from pathlib import Path

import pytest

from specdash.worker.machine import machine_facts
from specdash.worker.place import Place
from specdash.worker.protocol import SpecServer


@pytest.mark.parametrize(
    "server",
    [
        None,
        SpecServer(name="a", url="http://127.0.0.1:8000"),
        SpecServer(name="a", url="http://localhost:8000"),
        SpecServer(name="a", url="http://[::1]:8000/x"),
    ],
)
def test_here(server: SpecServer | None) -> None:
    place = Place(server)
    assert place.facts()["fingerprint"] == machine_facts()["fingerprint"]
    assert place.snapshot() is not None


def test_elsewhere_only_the_host_is_known() -> None:
    place = Place(SpecServer(name="a", url="https://GPU-Box:8000/x"))
    assert place.facts() == {"fingerprint": "host:gpu-box", "hostname": "gpu-box"}
    assert place.snapshot() is None


def test_two_servers_on_one_host_are_one_machine() -> None:
    one, two = (Place(SpecServer(name=str(p), url=f"http://box:{p}")) for p in (1, 2))
    assert one.facts() == two.facts()


def test_the_token_is_read_where_the_address_is_made(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("sk-abc")
    server = SpecServer(name="a", url="http://box", arm_text="off", token_path=str(path))
    address = Place(server).address()
    assert address is not None
    assert (address.name, address.url, address.arm_text) == ("a", "http://box", "off")
    assert address.token == "sk-abc"
    assert "sk-abc" not in repr(address)
    path.unlink()
    address = Place(server).address()
    assert address is not None
    assert address.token is None
    assert Place(None).address() is None

"""Real packets over loopback."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cellpace as cp
import pytest
from conftest import Program


@contextmanager
def receiver(program: str, json_file: Path, *options: str) -> Iterator[int]:
    """`cellpace recv` at a free port, which it prints."""
    command = [program, "recv", "--once", "--listen", "127.0.0.1:0", "--json", str(json_file)]
    process = subprocess.Popen([*command, *options], stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "waiting at" in line)
        found = re.search(r":(\d+)", line)
        assert found, line
        yield int(found[1])
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()
        if process.stderr is not None:
            process.stderr.close()


class Counted(cp.Controller):
    acks = 0
    cwnd = 60_000

    def on_ack(self, ack: cp.AckEvent) -> None:
        assert 0 < ack.rtt < 10 and ack.bytes > 0
        Counted.acks += 1


def test_a_controller_in_python_sends_real_packets(program_path: str, tmp_path: Path) -> None:
    with receiver(program_path, tmp_path / "recv.json") as port:
        sent = cp.send("127.0.0.1", port, cc=Counted(), bytes="2MB", timeout="10s")
    (flow,) = sent.flows
    assert flow["cc"] == "Counted" and flow["error"] is None
    received = json.loads((tmp_path / "recv.json").read_text())["flows"][0]
    assert flow["bytes"] == received["bytes"] == 2_000_000
    assert Counted.acks > 1000
    assert "Counted" in repr(sent) and "Counted" in cp.report(sent).html


def test_built_in_controllers_send_side_by_side_under_a_key(
    program: Program, program_path: str, tmp_path: Path
) -> None:
    key = tmp_path / "path.key"
    program("key", str(key))
    with receiver(program_path, tmp_path / "recv.json", "--key", str(key)) as port:
        sent = cp.send("127.0.0.1", port, cc=["cubic", "copa"], bytes="500kB", key=key)
    assert [flow["cc"] for flow in sent.flows] == ["cubic", "copa"]
    (tmp_path / "no.key").write_text("secret")
    (tmp_path / "no.key").chmod(0o600)
    with pytest.raises(cp.CellpaceError, match="not a key"):
        cp.send("127.0.0.1", key=tmp_path / "no.key")
    with pytest.raises(cp.CellpaceError, match="there is no key"):
        cp.send("127.0.0.1", key=key, plain=True)
    with receiver(program_path, tmp_path / "recv.json", "--plain") as port:
        cp.send("127.0.0.1", port, cc="cubic", bytes="500kB", plain=True)


def test_an_exception_ends_the_transfer(program_path: str, tmp_path: Path) -> None:
    class Wrong(cp.Controller):
        def on_ack(self, ack: cp.AckEvent) -> None:
            raise LookupError("in the middle")

    command = [program_path, "recv", "--listen", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = next(line for line in process.stderr if "waiting at" in line)
        found = re.search(r":(\d+)", line)
        assert found
        with pytest.raises(LookupError, match="in the middle"):
            cp.send("127.0.0.1", int(found[1]), cc=Wrong, duration="30s")
    finally:
        process.kill()
        process.communicate()


def test_what_cannot_be_sent_is_refused() -> None:
    with pytest.raises(cp.CellpaceError, match="allowed: 1280 to 9000"):
        cp.send("127.0.0.1", mtu=500)
    with pytest.raises(cp.CellpaceError, match="cc: there is no controller"):
        cp.send("127.0.0.1", cc="verbus")
    with pytest.raises(cp.CellpaceError, match="bytes: "):
        cp.send("127.0.0.1", bytes="much")
    with pytest.raises(cp.CellpaceError, match="no answer within 500ms"):
        cp.send("127.0.0.1", 9, timeout="500ms")

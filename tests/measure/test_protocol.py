"""Framed messages over pipes."""

import os
import threading

import pytest
from tilewright.measure.processes.protocol import Channel, Closed, pair, roomy


def test_messages_arrive_in_order_and_whole():
    a, b = pair()
    big = os.urandom(3 << 20)
    # more than a pipe holds: someone has to read meanwhile
    writer = threading.Thread(target=lambda: [a.send(m) for m in ("one", {"two": 2}, big)])
    writer.start()
    assert [b.receive(5) for _ in range(3)] == ["one", {"two": 2}, big]
    writer.join()
    b.send("back")
    assert a.receive(1) == "back"


def test_nothing_to_read_times_out_and_the_message_still_arrives_later():
    a, b = pair()
    with pytest.raises(TimeoutError):
        b.receive(0.01)
    a.send(1)
    assert b.receive(1) == 1


def test_half_a_message_is_not_a_message():
    a, b = pair()
    os.write(a.write_fd, b"\x10\0\0\0\0\0\0\0half")
    with pytest.raises(TimeoutError):
        b.receive(0.01)
    assert not b.pending()


def test_messages_sent_before_the_end_are_read_then_closed():
    a, b = pair()
    a.send("last words")
    a.close()
    assert b.receive(1) == "last words"
    with pytest.raises(Closed):
        b.receive(1)


def test_writing_to_a_closed_end():
    a, b = pair()
    b.close()
    with pytest.raises(Closed):
        a.send("x")
    assert isinstance(a, Channel)


def test_sources_are_sent_before_anybody_reads():
    """A builder goes on while the search thinks of what to ask next: its results wait in the pipe."""
    a, b = pair()
    roomy(a.write_fd)
    sources = [("\n".join(f"%x{i} = fadd <16 x float> %a{i * k}, %b{i}" for i in range(8000)), os.urandom(30_000)) for k in range(1, 7)]
    writer = threading.Thread(target=lambda: [a.send(s) for s in sources], daemon=True)
    writer.start()
    writer.join(20)
    assert not writer.is_alive(), "all of it is sent"
    assert [b.receive(5) for _ in sources] == sources

"""The relay's socket, as a subprocess against a scripted hub: what wakes it, what ends the socket, what it then does.

Needs the library websocket-client, as the relay does to listen; how the relay goes on without it is tested here too.
"""
import base64
import hashlib
import pathlib
import socket
import struct
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import relay  # noqa: E402
from test_relay import EMPTY, KEY, RelayTest, claimed, wait_until  # noqa: E402

TEXT, CLOSE = 1, 8


class Peer:
    """The hub's end of one socket."""

    def __init__(self, handler):
        self._write, self._read, self._connection = handler.wfile, handler.rfile, handler.connection
        self.heard, self.is_over = [], threading.Event()

    def send(self, text):
        self._frame(TEXT, text.encode())

    def wake(self):
        self.send('{"event":"wake"}')

    def close(self, code, reason):
        self._frame(CLOSE, struct.pack(">H", code) + reason.encode())

    def drop(self):
        self._connection.shutdown(socket.SHUT_RDWR)
        self.is_over.set()

    def _frame(self, kind, data):
        self._write.write(bytes([0x80 | kind, len(data)]) + data)
        self._write.flush()

    def listen(self):
        """Hears what the relay says until it is gone."""
        while True:
            head = self._read.read(2)
            if len(head) < 2:
                return
            mask = self._read.read(4)
            data = bytes(byte ^ mask[n % 4] for n, byte in enumerate(self._read.read(head[1] & 127)))
            if head[0] & 15 == CLOSE:
                return
            self.heard.append(data.decode())
            if self.heard[-1] == "ping":
                self.send("pong")


class Listening(RelayTest):
    def setUp(self):
        super().setUp()
        self.peers, self.refusals, self.asked = [], [], []
        test = self

        def do_GET(handler):
            test.asked.append((handler.path, dict(handler.headers)))
            if test.refusals:
                handler.send_response(test.refusals.pop(0))
                handler.send_header("Content-Length", "0")
                handler.end_headers()
                return
            proof = handler.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            handler.send_response(101)
            handler.send_header("Upgrade", "websocket")
            handler.send_header("Connection", "Upgrade")
            handler.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(proof.encode()).digest()).decode())
            handler.end_headers()
            peer = Peer(handler)
            test.peers.append(peer)
            threading.Thread(target=peer.listen, daemon=True).start()
            while not (peer.is_over.wait(0.02) or test.hub.closing.is_set()):
                pass
            handler.close_connection = True

        handler_class = self.hub.server.RequestHandlerClass
        handler_class.protocol_version = "HTTP/1.1"
        handler_class.do_GET = do_GET

    def listening(self, count=1):
        """The hub's end of the newest socket, once there have been so many and the relay has claimed since."""
        wait_until(lambda: len(self.peers) >= count, f"socket {count}")
        return self.peers[-1]

    def claims(self):
        return len(self.hub.bodies("claim"))

    def wait_for_idle_claim(self, after):
        """A claim that does not wait, as those of a relay that listens."""
        wait_until(lambda: any(b["wait_seconds"] == 0 for b in self.hub.bodies("claim")[after:]), "a claim at once")

    def test_it_claims_at_the_connect_and_at_each_wake_and_otherwise_waits(self):
        self.hub.script("claim", then=EMPTY)
        self.start("run", "true")
        peer = self.listening()
        self.wait_for_log("listening: the hub tells")
        path, headers = self.asked[0]
        self.assertEqual((path, headers["Authorization"]), ("/executor/listen", f"Bearer {KEY}"))
        self.wait_for_idle_claim(0)
        before = self.claims()
        self.hub.script("claim", claimed("t_1"), then=EMPTY)
        peer.wake()
        self.hub.wait_for("result")
        self.wait_for_idle_claim(before)
        peer.send("pong")
        peer.send("no JSON")
        peer.send('["wake"]')
        settled = self.claims()
        peer.wake()
        wait_until(lambda: self.claims() > settled, "a claim after a wake")
        self.assertNotIn("polling", self.log().split("listening: the hub")[1])

    def test_a_socket_that_the_hub_closes_is_opened_again_and_the_log_says_why(self):
        self.hub.script("claim", then=EMPTY)
        self.start("run", "true")
        self.listening().close(4001, "The owner changed this executor or its keys. Reconnect.")
        before = self.claims()
        self.listening(2)
        self.wait_for_log("closed by the hub, 4001 The owner changed this executor or its keys. Reconnect.")
        self.assertEqual(self.log().count("listening: the hub tells"), 2)
        wait_until(lambda: self.claims() > before, "a claim after the reconnect")

    def test_without_a_socket_it_polls_until_there_is_one_again(self):
        self.hub.script("claim", then=EMPTY)
        self.refusals += [503, 503, 503]
        self.start("run", "true")
        self.wait_for_log("cannot listen (the hub answers 503); polling")
        self.assertEqual(self.hub.wait_for("claim")[0]["wait_seconds"], 25)
        self.listening()
        self.wait_for_idle_claim(0)
        self.assertEqual(self.log().count("cannot listen"), 1, "one line, not one a try")

    def test_a_connection_that_breaks_is_made_again(self):
        self.hub.script("claim", then=EMPTY)
        self.start("run", "true")
        self.listening().drop()
        self.listening(2)
        self.wait_for_log("cannot listen")

    def test_a_key_that_is_refused_ends_the_relay(self):
        self.hub.script("claim", then=EMPTY)
        self.refusals += [401]
        self.start("run", "true")
        self.assertEqual(self.exit_code(), 2)
        self.assertIn("does not accept this key", self.log())

    def test_a_hub_without_the_socket_is_polled(self):
        self.hub.script("claim", then=EMPTY)
        self.refusals += [404]
        self.start("run", "true")
        self.wait_for_log("offers no socket to listen on; polling")
        self.hub.wait_for("claim", 2)
        self.assertEqual(len(self.asked), 1)

    def test_a_redirect_is_not_followed_with_the_key(self):
        self.hub.script("claim", then=EMPTY)
        self.refusals += [307, 307]
        self.start("run", "true")
        self.listening()
        self.assertEqual({path for path, _ in self.asked}, {"/executor/listen"})

    def test_it_stops_at_once_while_it_listens(self):
        self.hub.script("claim", then=EMPTY)
        self.start("run", "true")
        self.listening()
        self.wait_for_idle_claim(0)
        self.process.terminate()
        self.assertEqual(self.exit_code(), 0)

    def test_no_listen_and_once_open_no_socket(self):
        self.hub.script("claim", then=EMPTY)
        self.start("run", "true", "--no-listen")
        self.assertEqual(self.hub.wait_for("claim")[0]["wait_seconds"], 25)
        self.end()
        self.start("once", "true")
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.asked, [])

    def test_without_the_library_it_polls_and_says_so(self):
        (self.directory / "websocket.py").write_text("# Another package with a module of this name.\n")
        self.hub.script("claim", then=EMPTY)
        self.start("run", "true", env={"PYTHONPATH": str(self.directory)})
        self.wait_for_log("polling (with the Python library websocket-client it would listen")
        self.assertEqual(self.hub.wait_for("claim")[0]["wait_seconds"], 25)
        self.assertEqual(self.asked, [])


class Decisions(unittest.TestCase):
    def test_what_is_a_wake(self):
        for text in ('{"event":"wake"}', b'{"event": "wake", "more": 1}'):
            self.assertTrue(relay.is_wake(text))
        for text in ("pong", "", "null", '"wake"', '["wake"]', '{"event":"sleep"}', '{"event":', b"\xff\xfe", None):
            self.assertFalse(relay.is_wake(text))

    def test_the_net_under_lost_wakes_has_jitter_and_stays_within_minutes(self):
        pauses = [relay.listen_pause(chance / 10) for chance in range(11)]
        self.assertEqual(pauses, sorted(pauses))
        self.assertTrue(120 <= pauses[0] < pauses[-1] <= 300)


if __name__ == "__main__":
    unittest.main()

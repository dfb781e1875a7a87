"""`serve`: wakes over HTTP, as a subprocess against a scripted hub, and what proves a wake."""
import base64
import hashlib
import hmac
import http.client
import pathlib
import re
import socket
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import relay  # noqa: E402
from test_relay import HUB_TIME, RelayTest, claimed  # noqa: E402

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOW = HUB_TIME // 1000  # The scripted hub lives in 2001, and only its time counts.
BODY = b'{"event":"wake"}'


def signed(body=BODY, wake_id="msg_1", at=NOW, secret=SECRET):
    proof = hmac.new(base64.b64decode(secret[6:]), f"{wake_id}.{at}.".encode() + body, hashlib.sha256).digest()
    return {"webhook-id": wake_id, "webhook-timestamp": str(at), "webhook-signature": "v1,AAAA v1," + base64.b64encode(proof).decode()}


class Proofs(unittest.TestCase):
    def verify(self, headers, body=BODY, secret=SECRET, bearer=None, at=NOW):
        return relay.verify_wake(headers, body, secret, bearer, at)

    def test_a_signature_holds_for_its_id_time_and_body_only(self):
        self.assertIsNone(self.verify(signed()))
        self.assertIsNone(self.verify(signed(at=NOW - 299)))
        self.assertIn("301 s away", self.verify(signed(at=NOW - 301)))
        self.assertIn("301 s away", self.verify(signed(at=NOW + 301)))
        for change in ({"webhook-id": "msg_2"}, {"webhook-timestamp": str(NOW + 1)}, {"webhook-signature": "v1,AAAA"},
                       {"webhook-signature": "v1a," + signed()["webhook-signature"].split(",")[-1]}):
            self.assertIn("no signature fits", self.verify({**signed(), **change}))
        self.assertIn("no signature fits", self.verify(signed(), body=BODY + b" "))
        for missing in signed():
            self.assertIn("are needed", self.verify({**signed(), missing: ""}))

    def test_a_bearer(self):
        self.assertIsNone(self.verify({"Authorization": "Bearer ring"}, secret=None, bearer="ring"))
        for wrong in ({}, {"Authorization": "Bearer rin"}, {"Authorization": "Basic ring"}, {"Authorization": "Bearer größe"}):
            self.assertIn("bearer token", self.verify(wrong, secret=None, bearer="ring"))

    def test_secrets(self):
        for secret in ("whsec_", "whsec_%%%", "short"):
            with self.assertRaises(ValueError):
                relay.webhook_key(secret)


class Serving(RelayTest):
    def serve(self, script="echo done", env=None):
        self.start("serve", script, "--bind", "127.0.0.1:0", env=env or {"TASKHUB_WAKE_SECRET": SECRET})
        self.wait_for_log("waiting for tasks, woken at")
        self.hub.wait_for("claim")  # What was there before the first wake.
        self.port = int(re.search(r"woken at http://127.0.0.1:(\d+)/", self.log())[1])

    def knock(self, headers, body=BODY, method="POST"):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, "/any", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def test_a_wake_is_answered_at_once_and_what_is_ready_is_done(self):
        self.serve("sleep 1; echo done")
        self.hub.script("claim", claimed("t_1"), claimed("t_2"))
        self.assertEqual(self.knock(signed())[0], 200)
        self.assertEqual(self.hub.bodies("result"), [])
        self.hub.wait_for("result", 2)
        self.assertTrue(all(body["wait_seconds"] == 0 for body in self.hub.bodies("claim")))
        self.process.terminate()
        self.assertEqual(self.exit_code(), 0)
        self.assertNotIn(SECRET, self.log())

    def test_a_wake_that_comes_twice_counts_once(self):
        self.serve()
        self.knock(signed())
        self.hub.wait_for("claim", 2)
        for _ in range(3):
            self.assertEqual(self.knock(signed())[0], 200)
        self.knock(signed(wake_id="msg_2"))
        self.hub.wait_for("claim", 3)
        self.knock(signed(wake_id="msg_3"))
        self.hub.wait_for("claim", 4)
        self.assertEqual(len(self.hub.bodies("claim")), 4)

    def test_what_is_no_wake_is_refused_and_claims_nothing(self):
        self.serve()
        for status, headers, body, method in (
                (401, {}, BODY, "POST"), (401, {**signed(), "webhook-signature": "v1,x"}, BODY, "POST"),
                (401, signed(at=NOW - 1000), BODY, "POST"), (401, {"Authorization": "Bearer x"}, BODY, "POST"),
                (413, signed(), b"x" * 70_000, "POST"), (405, {}, None, "GET"), (405, signed(), BODY, "PUT")):
            try:
                self.assertEqual(self.knock(headers, body, method)[0], status)
            except (BrokenPipeError, ConnectionResetError):
                self.assertEqual(status, 413)  # Closed before all of it was sent.
        with socket.create_connection(("127.0.0.1", self.port)) as idle:  # One that says nothing keeps nobody out.
            idle.sendall(b"POST / HTTP/1.1\r\n")
            self.assertEqual(len(self.hub.bodies("claim")), 1)
            self.knock(signed())
            self.hub.wait_for("claim", 2)
        self.assertIn("a wake was refused", self.log())

    def test_a_bearer(self):
        self.serve(env={"TASKHUB_WAKE_BEARER": "ring-ring"})
        self.assertEqual(self.knock({"Authorization": "Bearer wrong"})[0], 401)
        self.assertEqual(self.knock({"Authorization": "Bearer ring-ring"})[0], 200)
        self.hub.wait_for("claim", 2)

    def test_without_a_secret_or_on_a_port_in_use_it_says_so(self):
        self.start("serve", "cat")
        self.assertEqual(self.exit_code(), 2)
        self.assertIn("how the hub proves its wakes", self.log())
        taken = self.enter(socket.create_server(("127.0.0.1", 0)))
        self.start("serve", "cat", "--bind", f"127.0.0.1:{taken.getsockname()[1]}", env={"TASKHUB_WAKE_SECRET": SECRET})
        self.assertEqual(self.exit_code(), 2)
        self.assertIn("in use", self.log())

    def test_the_command_gets_no_secret(self):
        self.serve("env", env={"TASKHUB_WAKE_SECRET": SECRET})
        self.hub.script("claim", claimed())
        self.knock(signed())
        self.assertNotIn(SECRET[6:], self.hub.wait_for("result")[0]["result"])


if __name__ == "__main__":
    unittest.main()

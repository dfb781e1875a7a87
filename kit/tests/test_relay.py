"""The relay as a whole, as a subprocess, against a scripted hub in this process.

The real hub is used in tests/edge. This one exists to answer in ways that a healthy hub cannot: responses that are lost
or cut short, 500s, leases that are lost in the middle of a run, a network that is gone. Every test waits for
conditions, never for a time; every test also checks that neither the key nor a claim token is in the log.
"""
import http.server
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

RELAY = pathlib.Path(__file__).resolve().parent.parent / "relay.py"
KEY = "exk_tester.c2VjcmV0LXJhbmRvbQ.c2VjcmV0LW1hYw"
TOKEN = "clm_c2VjcmV0LXRva2Vu"
PATIENCE_SECONDS = 30  # Only a failing test waits this long.
HUB_TIME = 1_000_000_000_000  # 2001: a hub whose clock has nothing to do with ours.


def wait_until(condition, what):
    end = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}")


def is_alive(pid):
    """Whether the process still runs; a zombie that nobody has collected does not."""
    try:
        os.kill(pid, 0)
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not pathlib.Path("/proc/self/stat").exists()


class Reply:
    """One scripted answer; `lost` closes the connection without one, `cut` sends half, `after` is waited for first."""

    def __init__(self, status=200, body=None, lost=False, cut=False, after=None, headers=None):
        self.status, self.body, self.headers = status, body, headers or {}
        self.lost, self.cut, self.after = lost, cut, after


LOST, EMPTY = Reply(lost=True), Reply(204)


def problem(status, code, retryable=False, **more):
    return Reply(status, {"type": "about:blank", "title": code, "status": status, "code": code,
                          "detail": f"About {code}.", "retryable": retryable, **more})


def claimed(task_id="t_1", lease=300.0, every=None, attempt=1, deadline_in=None, **more):
    """A claim answer; `lease`, `every` (of the heartbeats) and `deadline_in` in seconds."""
    return Reply(200, {
        "task": {"id": task_id, "title": f"Title of {task_id}", "instructions": "Do it — größer.", "queue": "ops",
                 "deadline_at": None if deadline_in is None else HUB_TIME + int(deadline_in * 1000)},
        "attempt": attempt, "claim_token": f"{TOKEN}.{task_id}", "lease_expires_at": HUB_TIME + int(lease * 1000),
        "lease_seconds": lease, "heartbeat_every_seconds": every or lease / 3,
        "context": {"checkpoint": None, "messages": []}, **more})


class ScriptedHub:
    """Answers each path from its list of replies, and once that is used up as an idle, healthy hub would."""

    def __init__(self):
        self.calls, self.scripts, self.files, self.closing = [], {}, {}, threading.Event()
        self.limits = {"result_bytes_max": 262_144, "claim_wait_seconds_max": 25, "note_chars_max": 2_000}
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def do_PUT(self):
                self.answer(self.rfile.read(int(self.headers["Content-Length"])))

            def answer(self, body):
                hub.calls.append((self.path, body, self.headers))
                reply = hub.reply_to(self.path.split("?")[0], body)
                if reply.after:
                    while not (hub.closing.is_set() or reply.after()):
                        time.sleep(0.02)
                if reply.lost or hub.closing.is_set():
                    return
                data = b"" if reply.body is None else json.dumps(reply.body).encode()
                try:
                    self.send_response(reply.status)
                    for name, value in {"Content-Length": str(len(data)), **reply.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data[:len(data) // 2] if reply.cut else data)
                except OSError:
                    pass

            def do_GET(self):
                data = hub.files.get(self.path)
                hub.calls.append((self.path, None, self.headers))
                self.send_response(404 if data is None else 200)
                self.send_header("Content-Length", str(len(data or b"")))
                self.end_headers()
                self.wfile.write(data or b"")

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self):
        self.closing.set()
        self.server.shutdown()
        self.server.server_close()

    def script(self, verb, *replies, then=None):
        """The next replies to a verb, and what it answers after them."""
        self.scripts[f"/executor/{verb}"] = (list(replies), then)

    def reply_to(self, path, body):
        replies, then = self.scripts.get(path, ([], None))
        reply = replies.pop(0) if replies else then
        if callable(reply):
            reply = reply(body)
        body = body if isinstance(body, dict) else {}
        return reply or {
            "/executor/ping": Reply(200, {"executor": "tester", "queues": [{"name": "ops", "ready": 2}], "held": 0,
                                          "server_time": HUB_TIME, "hub_version": "9.9", "limits": self.limits}),
            "/executor/claim": EMPTY,
            "/executor/heartbeat": Reply(200, {"state": "working", "cancel_requested": False}),
            "/executor/result": Reply(200, {"task_id": body.get("task_id"), "state": body.get("status"), "attempt": 1}),
            "/executor/release": Reply(200, {"task_id": body.get("task_id"), "state": "submitted"}),
            "/executor/defer": Reply(200, {"task_id": body.get("task_id"), "state": "waiting"}),
            "/executor/action": Reply(200, {"first": True, "status": "begun", "idempotency_key": "k1", "next": "Do it."}),
            "/executor/attachment": Reply(201, {"id": "f_1", "name": "file", "size": 1}),
        }[path]

    def bodies(self, verb):
        return [body for path, body, _ in list(self.calls) if path == f"/executor/{verb}"]

    def attached(self):
        """The files that were sent: name, content, headers."""
        return [(urllib.parse.parse_qs(path.split("?")[1])["name"][0], body, headers)
                for path, body, headers in list(self.calls) if path.startswith("/executor/attachment?")]

    def wait_for(self, verb, count=1):
        wait_until(lambda: len(self.bodies(verb)) >= count, f"call {count} of {verb}")
        return self.bodies(verb)


class RelayTest(unittest.TestCase):
    def setUp(self):
        self.hub = ScriptedHub()
        self.addCleanup(self.hub.close)
        self.directory = pathlib.Path(self.enter(tempfile.TemporaryDirectory()))
        self.process = None

    def enter(self, context):
        value = context.__enter__()
        self.addCleanup(context.__exit__, None, None, None)
        return value

    def start(self, verb, script="", *options, env=None, hub=None):
        """Starts the relay with `sh -c script` as its command, in a directory of the test's own."""
        log = self.enter(open(self.directory / "log", "ab"))
        command = ["--", "sh", "-c", script] if script else []
        self.process = subprocess.Popen(
            [sys.executable, RELAY, verb, "--hub", hub or self.hub.url, *options, *command], cwd=self.directory,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            env={"PATH": os.environ["PATH"], "TASKHUB_KEY": KEY, "XDG_CONFIG_HOME": str(self.directory / "config"),
                 "XDG_STATE_HOME": str(self.directory / "state"), **(env or {})})
        self.addCleanup(self.process.stdout.close)
        self.addCleanup(self.end)

    def end(self):
        if self.process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGTERM):
                self.process.send_signal(number)
                time.sleep(0.05)
            try:
                self.process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        for secret in (KEY, TOKEN, KEY.split(".")[1], TOKEN.split("_")[1]):
            self.assertNotIn(secret, self.log())

    def exit_code(self):
        return self.process.wait(PATIENCE_SECONDS)

    def log(self):
        return (self.directory / "log").read_text()

    def wait_for_log(self, text):
        wait_until(lambda: text in self.log(), f"{text!r} in the log")

    def read(self, name):
        """A file of the command's, once it is there whole (commands end their files with a line end)."""
        path = self.directory / name
        return wait_until(lambda: path.exists() and path.read_text().endswith("\n") and path.read_text(), name)

    def pids(self):
        return [int(word) for word in self.read("pids").split()]

    def wait_for_death(self, pids):
        wait_until(lambda: not any(map(is_alive, pids)), f"the end of {pids}")


# A command and its child, both deaf to SIGTERM: only SIGKILL to the whole group ends them.
STUBBORN = 'trap "" TERM; sleep 300 & echo "$$ $!" > pids; wait; sleep 300'
PLAIN = 'sleep 300 & echo "$$ $!" > pids; wait'


class Work(RelayTest):
    def test_once_runs_what_is_ready_and_exits(self):
        first = claimed("t_1", attempt=3)
        self.hub.script("claim", first, claimed("t_2"))
        self.start("once", 'cat > "$TASKHUB_TASK_ID.json"; env > "$TASKHUB_TASK_ID.env"; echo step >&2; '
                           'echo "done: größer"', "--queues", "ops, slow")
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual([path.rsplit("/", 1)[1] for path, _, _ in self.hub.calls],
                         ["ping", "claim", "result", "claim", "result", "claim"])
        claims = self.hub.bodies("claim")
        self.assertEqual(len({body["request_id"] for body in claims}), 3)
        self.assertEqual((claims[0]["wait_seconds"], claims[0]["queues"]), (0, ["ops", "slow"]))
        self.assertEqual(self.hub.bodies("result")[0], {
            "task_id": "t_1", "claim_token": f"{TOKEN}.t_1", "status": "completed", "result": "done: größer"})
        given = json.loads((self.directory / "t_1.json").read_text())
        self.assertEqual(given, {name: value for name, value in first.body.items() if name != "claim_token"})
        environment = (self.directory / "t_1.env").read_text()
        for line in ("TASKHUB_TASK_ID=t_1", "TASKHUB_ATTEMPT=3", f"TASKHUB_URL={self.hub.url}"):
            self.assertIn(line + "\n", environment)
        self.assertNotIn(KEY, environment)
        self.assertNotIn(TOKEN, environment)
        headers = self.hub.calls[1][2]
        self.assertEqual(headers["Authorization"], f"Bearer {KEY}")
        self.assertIn("taskhub-relay/", headers["User-Agent"])

    def test_key_from_a_file_and_hub_from_the_environment(self):
        (self.directory / "key").write_text(KEY + "\n")
        (self.directory / "key").chmod(0o644)
        self.start("once", "cat", "--key-file", "key", env={"TASKHUB_KEY": "", "TASKHUB_URL": self.hub.url})
        self.assertEqual(self.exit_code(), 0)
        self.assertIn("chmod 600", self.log())

    def test_exit_codes_and_signals(self):
        self.hub.script("claim", claimed("t_75"), claimed("t_3"), claimed("t_9"))
        self.start("once", 'echo why >&2; case $TASKHUB_TASK_ID in t_75) exit 75;; t_3) exit 3;; *) kill -9 $$;; esac')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual([(body["status"], body["retryable"], body["error"]) for body in self.hub.bodies("result")], [
            ("failed", True, "exit code 75: why"), ("failed", False, "exit code 3: why"),
            ("failed", True, "killed by SIGKILL: why")])

    def test_big_and_invalid_output(self):
        self.hub.limits["result_bytes_max"] = 1_000
        self.hub.script("claim", claimed())
        self.start("once", r"printf 'a\000b\377'; i=0; while [ $i -lt 3000 ]; do printf '€€€€€€€€€€'; i=$((i+1)); done")
        self.assertEqual(self.exit_code(), 0)
        result = self.hub.bodies("result")[0]["result"]
        self.assertLessEqual(len(result.encode()), 1_000)
        self.assertRegex(result, "^ab\ufffd€+\n\\[cut here by the relay: the hub takes 1000 bytes, "
                                 "the command wrote 90004\\]$")

    def test_a_command_that_ignores_its_input_and_leaves_a_child_behind(self):
        self.hub.script("claim", Reply(200, {**claimed().body, "filler": "x" * 500_000}))
        self.start("once", 'sleep 300 & echo "$!" > pids; echo out')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("result")[0]["result"], "out")
        self.wait_for_death(self.pids())

    def test_notes_come_from_stderr_and_only_when_they_changed(self):
        self.hub.script("claim", claimed(every=0.2))
        self.start("run", 'echo one >&2; while ! [ -e go ]; do sleep 0.05; done; '
                          'echo two >&2; echo $$ > pids; sleep 300')
        wait_until(lambda: any("note" in body for body in self.hub.bodies("heartbeat")), "a note")
        self.hub.wait_for("heartbeat", len(self.hub.bodies("heartbeat")) + 2)
        (self.directory / "go").touch()
        notes = lambda: [body["note"] for body in self.hub.bodies("heartbeat") if "note" in body]  # noqa: E731
        wait_until(lambda: len(notes()) == 2, "the second note")
        self.assertEqual(notes(), ["one", "two"])
        self.assertTrue(is_alive(self.pids()[0]))

    def test_two_at_a_time(self):
        self.hub.script("claim", claimed("t_1"), claimed("t_2"), claimed("t_3"))
        self.start("run", 'touch $TASKHUB_TASK_ID; while ! [ -e t_1 -a -e t_2 ]; do sleep 0.02; done; '
                          '[ $TASKHUB_TASK_ID = t_3 ] || while ! [ -e go ]; do sleep 0.02; done; echo $TASKHUB_TASK_ID',
                   "--concurrency", "2")
        wait_until(lambda: (self.directory / "t_1").exists() and (self.directory / "t_2").exists(), "both commands")
        self.assertEqual(len(self.hub.bodies("claim")), 2)
        (self.directory / "go").touch()
        self.assertEqual(sorted(body["result"] for body in self.hub.wait_for("result", 3)), ["t_1", "t_2", "t_3"])

    def test_ping(self):
        self.start("ping")
        self.assertEqual(self.exit_code(), 0)
        said = self.process.stdout.read().decode()
        for text in ("tester", "ops (2 ready)", "9.9", "ahead of the hub", "result_bytes_max 262144"):
            self.assertIn(text, said)


class LostAnswers(RelayTest):
    def test_a_claim_is_repeated_under_its_request_id(self):
        cut = Reply(200, claimed().body, cut=True)
        self.hub.script("claim", LOST, cut, problem(503, "unavailable", True), claimed())
        self.start("once", "echo ok")
        self.assertEqual(self.exit_code(), 0)
        ids = [body["request_id"] for body in self.hub.bodies("claim")]
        self.assertEqual(len(ids), 5)
        self.assertEqual(len(set(ids[:4])), 1)
        self.assertNotEqual(ids[3], ids[4])
        self.assertEqual(len(self.hub.bodies("result")), 1)

    def test_a_claim_that_has_ended_is_followed_by_a_new_one(self):
        self.hub.script("claim", LOST, problem(409, "claim_ended"), claimed())
        self.start("once", "echo ok")
        self.assertEqual(self.exit_code(), 0)
        ids = [body["request_id"] for body in self.hub.bodies("claim")]
        self.assertTrue(ids[0] == ids[1] != ids[2])

    def test_a_claim_that_took_long_is_confirmed_before_the_command_starts(self):
        self.hub.script("claim", LOST, claimed(every=0.05))  # Shorter than any pause before the second try.
        self.hub.script("heartbeat", problem(409, "lease_lost"))
        self.start("once", "touch ran")
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(len(self.hub.bodies("heartbeat")), 1)
        self.assertFalse((self.directory / "ran").exists())
        self.assertEqual(self.hub.bodies("result"), [])

    def test_a_result_is_sent_until_acknowledged_under_heartbeats(self):
        self.hub.script("claim", claimed(every=0.2))
        unwell = problem(503, "unavailable", True, retry_after_seconds=0)
        self.hub.script("result", LOST, problem(500, "internal", True),
                        then=lambda _: unwell if len(self.hub.bodies("heartbeat")) < 5 else None)
        self.start("once", "echo ok")
        self.assertEqual(self.exit_code(), 0)
        results = self.hub.bodies("result")
        self.assertTrue(len(results) >= 3 and all(body == results[0] for body in results))
        self.assertIn("reported as completed", self.log())

    def test_a_result_refused_for_good_is_reported_as_a_failure(self):
        self.hub.script("claim", claimed("t_1"), claimed("t_2"))
        self.hub.script("result", problem(413, "too_large"), None, problem(409, "lease_lost"))
        self.start("once", "echo ok")
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual([(body["task_id"], body["status"]) for body in self.hub.bodies("result")],
                         [("t_1", "completed"), ("t_1", "failed"), ("t_2", "completed")])
        self.assertIn("About too_large.", self.hub.bodies("result")[1]["error"])
        self.assertIn("the result did not count (lease_lost)", self.log())

    def test_trouble_is_logged_when_it_changes_and_not_for_every_try(self):
        self.hub.script("claim", LOST, LOST, then=EMPTY)
        self.start("run", "cat")
        self.wait_for_log("the hub answers again")
        self.assertEqual(self.log().count("gives no answer"), 1)


class Stops(RelayTest):
    def assert_stopped(self, reason):
        self.wait_for_death(self.pids())
        self.wait_for_log(reason)
        self.hub.wait_for("claim", 2)  # It goes on with other tasks,
        self.assertEqual(self.hub.bodies("result"), [])  # and has nothing to say about this one.
        self.assertEqual(self.hub.bodies("release"), [])

    def test_a_lost_lease_kills_the_whole_process_group(self):
        self.hub.script("claim", claimed(every=0.2))
        self.hub.script("heartbeat", then=lambda _: self.pids() and problem(409, "lease_lost"))
        self.start("run", STUBBORN, "--grace", "0.3")
        self.assert_stopped("the hub has taken the lease back")

    def test_a_canceled_task(self):
        self.hub.script("claim", claimed(every=0.2))
        self.hub.script("heartbeat", then=lambda _: self.pids() and problem(409, "canceled"))
        self.start("run", PLAIN, "--grace", "0.5")
        self.assert_stopped("the task was canceled")

    def test_a_deadline_by_the_hubs_clock(self):
        self.hub.script("claim", claimed(deadline_in=1.5))
        self.start("run", PLAIN, "--grace", "0.5")
        self.assert_stopped("deadline has passed")

    def test_a_network_gone_for_a_lease(self):
        self.hub.script("claim", claimed(lease=2))
        self.hub.script("heartbeat", then=LOST)
        self.start("run", STUBBORN, "--grace", "0.2")
        self.assert_stopped("no heartbeat has reached the hub")
        self.assertGreaterEqual(len(self.hub.bodies("heartbeat")), 2)

    def test_a_network_that_swallows_everything(self):
        self.hub.script("claim", claimed(lease=2))
        self.hub.script("heartbeat", then=Reply(after=lambda: False))
        self.start("run", PLAIN)
        self.assert_stopped("no heartbeat has reached the hub")

    def test_a_revoked_key_in_the_middle_of_a_run(self):
        self.hub.script("claim", claimed(every=0.2))
        self.hub.script("heartbeat", then=lambda _: self.pids() and problem(401, "unauthorized"))
        self.start("run", PLAIN)
        self.assertEqual(self.exit_code(), 2)
        self.wait_for_death(self.pids())
        self.assertEqual(self.hub.bodies("release"), [])
        self.assertIn("Ask the owner for a code", self.log())


class Endings(RelayTest):
    def test_a_signal_ends_commands_and_releases_their_tasks(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                self.hub.calls.clear()
                (self.directory / "pids").unlink(missing_ok=True)
                self.hub.script("claim", claimed())
                self.hub.script("release", LOST)
                self.start("run", STUBBORN, "--grace", "0.2")
                pids = self.pids()
                self.process.send_signal(number)
                self.assertEqual(self.exit_code(), 0)
                self.wait_for_death(pids)
                self.assertEqual([body["task_id"] for body in self.hub.bodies("release")], ["t_1", "t_1"])
                self.assertEqual(self.hub.bodies("result"), [])

    def test_a_signal_while_a_claim_is_on_its_way(self):
        self.hub.script("claim", Reply(after=lambda: False), claimed())
        self.start("run", "touch ran")
        self.hub.wait_for("claim")
        self.process.terminate()
        self.assertEqual(self.exit_code(), 0)
        first, second = self.hub.bodies("claim")
        self.assertEqual(first["request_id"], second["request_id"])
        self.assertEqual((first["wait_seconds"], second["wait_seconds"]), (25, 0))
        self.assertEqual([body["task_id"] for body in self.hub.bodies("release")], ["t_1"])
        self.assertFalse((self.directory / "ran").exists())

    def test_a_signal_that_reaches_the_command_too(self):
        self.hub.script("claim", claimed())
        self.start("run", 'echo "$$" > pids; exec sleep 300')
        pids = self.pids()
        os.kill(pids[0], signal.SIGTERM)
        self.process.terminate()
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual([len(self.hub.bodies(verb)) for verb in ("release", "result")], [1, 0])

    def test_a_second_signal_exits_at_once(self):
        self.hub.script("claim", claimed())
        self.start("run", STUBBORN, "--grace", "3600")
        pids = self.pids()
        self.process.terminate()
        self.wait_for_log("told to stop")
        self.process.terminate()
        self.assertEqual(self.exit_code(), 128 + signal.SIGTERM)
        self.wait_for_death(pids)

    def test_a_finished_result_is_still_delivered_after_a_signal(self):
        self.hub.script("claim", claimed())
        told = threading.Event()
        self.hub.script("result", then=lambda _: None if told.is_set() else problem(503, "unavailable", True))
        self.start("run", "echo ok")
        self.hub.wait_for("result")
        self.process.terminate()
        self.wait_for_log("told to stop")
        told.set()
        self.assertEqual(self.exit_code(), 0)
        self.assertIn("reported as completed", self.log())
        self.assertEqual(self.hub.bodies("release"), [])

    def test_a_key_that_is_refused(self):
        self.hub.script("ping", then=problem(401, "unauthorized"))
        for verb, script in (("run", "cat"), ("once", "cat"), ("ping", "")):
            with self.subTest(verb):
                self.start(verb, script)
                self.assertEqual(self.exit_code(), 2)
        self.assertIn("the hub does not accept this key (401)", self.log())
        self.assertEqual(self.hub.bodies("claim"), [])

    def test_a_redirect_is_not_followed(self):
        other = ScriptedHub()
        self.addCleanup(other.close)
        self.hub.script("ping", then=Reply(307, headers={"Location": f"{other.url}/executor/ping"}))
        self.start("run", "cat")
        self.assertEqual(self.exit_code(), 1)
        self.assertIn(f"it redirects to {other.url}", self.log())
        self.assertEqual(other.calls, [])

    def test_a_claim_refused_at_first_ends_the_relay(self):
        self.hub.script("claim", then=problem(400, "bad_request"))
        self.start("run", "cat", "--queues", "nonsense")
        self.assertEqual(self.exit_code(), 1)
        self.assertIn("bad_request: About bad_request.", self.log())

    def test_wrong_arguments_exit_with_2_and_a_sentence(self):
        base = {"PATH": os.environ["PATH"], "TASKHUB_KEY": KEY, "TASKHUB_URL": self.hub.url}
        for arguments, env, said in ((["run"], {}, "Put it after two dashes"),
                                     (["run", "--", "no-such-command-"], {}, "cannot find"),
                                     (["run", "--", "cat"], {"TASKHUB_KEY": "nonsense"}, "no usable executor key"),
                                     (["ping", "--hub", "http://hub.example"], {}, "use https")):
            done = subprocess.run([sys.executable, RELAY, *arguments], capture_output=True, text=True, check=False,
                                  env={**base, **env})
            self.assertEqual(done.returncode, 2, done)
            self.assertIn(said, done.stderr)


if __name__ == "__main__":
    unittest.main()

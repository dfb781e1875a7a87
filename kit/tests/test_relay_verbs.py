"""The verbs of an agent in a shell, each a process of its own, against a scripted hub: what is kept, printed and exited with."""
import hashlib
import json
import pathlib
import stat
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_relay import EMPTY, KEY, LOST, TOKEN, Reply, claimed, problem  # noqa: E402
from test_relay_enroll import Installed  # noqa: E402


class Verbs(Installed):
    def setUp(self):
        super().setUp()
        self.state = self.directory / "state" / "taskhub"

    def verb(self, *arguments, code=0, env=None):
        done = self.relay(*arguments, env={"TASKHUB_URL": self.hub.url, "TASKHUB_KEY": KEY, **(env or {})})
        self.assertEqual(done.returncode, code, (arguments, done.stdout, done.stderr))
        self.assertNotIn(TOKEN, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def claim(self, *options, answer=None):
        self.hub.script("claim", answer or claimed(attempt=2))
        return self.verb("claim", *options)

    def test_a_task_from_claim_to_result(self):
        said = self.claim("--queues", "ops")
        for text in ("# Task t_1: Title of t_1", "Do it — größer.", "action begin", "every 100.0 s"):
            self.assertIn(text, said)
        kept = self.state / "claims" / "t_1.json"
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.assertIn(TOKEN, kept.read_text())
        self.assertIn("due within", self.verb("heartbeat", "halfway", "--progress", "0.5", "--checkpoint", '{"a": 1}'))
        (self.directory / "b.txt").write_text("b")
        self.assertIn("as f_1", self.verb("attach", "b.txt"))
        self.assertIn("first time", self.verb("action", "begin", "s1", "mail", '{"to": 1}'))
        self.verb("action", "done", "s1", "mail", '{"to": 1}', "--outcome", '"sent"')
        self.assertIn("the task is completed", self.verb("result", "All done.", "--data", "[1]"))
        proof = {"task_id": "t_1", "claim_token": f"{TOKEN}.t_1"}
        self.assertEqual(self.hub.bodies("claim")[0]["queues"], ["ops"])
        self.assertEqual(self.hub.bodies("heartbeat"), [{**proof, "note": "halfway", "progress": 0.5, "checkpoint": {"a": 1}}])
        self.assertEqual(self.hub.bodies("action")[1]["outcome"], "sent")
        self.assertEqual(self.hub.bodies("result"), [{**proof, "status": "completed", "result": "All done.", "data": [1]}])
        self.assertEqual(list((self.state / "claims").iterdir()), [])
        self.assertIn("you hold no task: take one first", self.verb("heartbeat", code=2))

    def test_nothing_to_do(self):
        self.assertIn("nothing to do now", self.verb("claim", "--wait", "99", code=3))
        self.assertEqual(self.hub.bodies("claim")[0]["wait_seconds"], 25)
        self.assertFalse((self.state / "claim-request").exists())

    def test_a_claim_whose_answer_was_lost_is_the_same_claim_in_the_next_call(self):
        self.hub.script("claim", LOST, problem(400, "bad_request"))
        self.verb("claim", code=2)
        self.claim()
        self.assertEqual(len({body["request_id"] for body in self.hub.bodies("claim")}), 1)
        self.hub.script("heartbeat", then=problem(409, "lease_lost"))
        self.hub.script("claim", problem(409, "claim_ended"), EMPTY)
        self.verb("claim", code=3)
        self.assertEqual(len({body["request_id"] for body in self.hub.bodies("claim")}), 3)

    def test_claim_shows_what_is_held_and_takes_another_only_if_told(self):
        self.claim()
        self.assertIn("You hold this task already.", self.verb("claim"))
        self.assertEqual(len(self.hub.bodies("claim")), 1)
        self.claim("--another", answer=claimed("t_2"))
        self.assertIn("say which with --task ID", self.verb("release", code=2))
        self.verb("release", "enough", "--task", "t_2")
        self.assertEqual(self.hub.bodies("release")[0]["task_id"], "t_2")
        self.verb("defer", "60", "later")
        self.assertEqual(self.hub.bodies("defer")[0], {"task_id": "t_1", "claim_token": f"{TOKEN}.t_1", "seconds": 60,
                                                       "note": "later"})

    def test_a_task_that_is_gone_is_forgotten_and_the_hub_says_why(self):
        for code in ("lease_lost", "canceled", "already_finished"):
            self.claim()
            self.hub.script("result", problem(409, code))
            self.assertIn(f"{code}: About {code}.", self.verb("result", "done", code=4))
            self.assertIn("you hold no task", self.verb("result", "done", code=2))

    def test_what_the_hub_does_not_take_is_said_in_its_own_words_and_the_claim_stays(self):
        self.claim()
        self.hub.script("defer", problem(400, "bad_request"))
        self.assertIn("bad_request: About bad_request.", self.verb("defer", "1", code=2))
        self.hub.script("action", problem(409, "action_not_begun"))
        self.verb("action", "done", "s", "t", code=1)
        self.verb("release")

    def test_an_action_that_was_begun_before_exits_with_5(self):
        self.claim()
        for status in ("unknown", "done", "begun"):
            self.hub.script("action", Reply(200, {"first": False, "status": status, "outcome": {"n": 1}, "next": "Look first.",
                                                  "idempotency_key": "k"}))
            said = self.verb("action", "begin", "s1", "mail", code=5)
            self.assertIn(f'{status}, outcome {{"n": 1}}', said)
            self.assertIn("Look first.", said)

    def test_a_question_ends_the_turn_or_waits(self):
        self.claim()
        self.assertIn("the task comes back with the answer", self.verb("ask", "Which?"))
        self.assertEqual(self.hub.bodies("result")[0]["question"], "Which?")
        self.claim()
        self.hub.script("heartbeat", Reply(200, {"state": "input-required", "messages": []}),
                        then=Reply(200, {"state": "working", "messages": [{"from": "submitter", "text": "Blue."}]}))
        self.assertIn("submitter: Blue.", self.verb("ask", "Which?", "--wait", "1"))
        self.assertEqual([body.get("state") for body in self.hub.bodies("heartbeat")],
                         ["input-required", "input-required", None])

    def test_heartbeats_for_a_while(self):
        self.claim(answer=claimed(every=0.2))
        self.hub.script("heartbeat", then=Reply(200, {"state": "working", "heartbeat_every_seconds": 0.2}))
        self.verb("heartbeat", "long", "--for", "1")
        beats = self.hub.bodies("heartbeat")
        self.assertTrue(3 <= len(beats) <= 6, beats)
        self.assertEqual([body.get("note") for body in beats[:2]], ["long", None])

    def test_input_files_are_brought_and_removed_at_the_end(self):
        self.hub.files["/files/f_1/a?x=1"] = b"data"
        entry = {"name": "a", "sha256": hashlib.sha256(b"data").hexdigest(), "url": f"{self.hub.url}/files/f_1/a?x=1"}
        said = self.claim(answer=claimed(context={"input_files": [entry]}))
        path = self.state / "claims" / "t_1" / "a"
        self.assertIn(str(path), said)
        self.assertEqual(path.read_bytes(), b"data")
        self.verb("result", "--failed", "no", "--retryable")
        self.assertFalse(path.exists())
        self.assertEqual({k: self.hub.bodies("result")[0][k] for k in ("status", "error", "retryable")},
                         {"status": "failed", "error": "no", "retryable": True})

    def test_json_for_programs(self):
        self.hub.script("claim", claimed())
        answer = json.loads(self.verb("claim", "--json"))
        self.assertEqual((answer["task"]["id"], "claim_token" in answer), ("t_1", False))
        self.assertEqual(json.loads(self.verb("heartbeat", "--json"))["state"], "working")

    def test_wrong_arguments_say_what_is_right(self):
        self.claim()
        (self.directory / "answer").write_text("From a file.")
        for arguments, said in ((["result"], "what is the result?"), (["result", "x", "--data", "{"], "--data is not JSON"),
                                (["action", "begin", "s", "t", "{'a': 1}"], "PARAMS is not JSON"),
                                (["attach", "nowhere"], "there is no file nowhere"),
                                (["heartbeat", "--task", "t_9"], "no claim of task t_9")):
            self.assertIn(said, self.verb(*arguments, code=2))
        self.verb("result", "--file", "answer")
        self.assertEqual(self.hub.bodies("result")[0]["result"], "From a file.")


if __name__ == "__main__":
    unittest.main()

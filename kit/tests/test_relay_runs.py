"""What a command gets from the relay and gives to it beside its output, as a subprocess against a scripted hub."""
import hashlib
import json
import os
import pathlib
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_relay import KEY, LOST, TOKEN, Reply, RelayTest, claimed, is_alive, problem, wait_until  # noqa: E402

ME = f'"{sys.executable}" "$TASKHUB_RELAY"'


def given(**context):
    return claimed("t_1", every=0.2, context={"checkpoint": None, "messages": [], **context})


class Files(RelayTest):
    def test_what_lies_in_the_out_folder_is_attached_before_the_result(self):
        self.hub.script("claim", claimed())
        self.hub.script("attachment", LOST)
        (self.directory / "secret").write_text("secret")
        self.start("once", 'cd "$TASKHUB_OUT" && mkdir -p a/b && printf one > a/b/x.txt && printf two > "größer *.md" && '
                           f'ln -s {self.directory}/secret link && ln -s {self.directory} folder && mkfifo pipe; echo done')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual([(name, body) for name, body, _ in self.hub.attached()],
                         [("größer _.md", b"two"), ("größer _.md", b"two"), ("a_b_x.txt", b"one")])
        headers = self.hub.attached()[2][2]
        self.assertEqual((headers["X-Claim-Token"], headers["X-Sha256"], headers["Authorization"]),
                         (f"{TOKEN}.t_1", hashlib.sha256(b"one").hexdigest(), f"Bearer {KEY}"))
        result = self.hub.bodies("result")[0]["result"]
        self.assertTrue(result.startswith("done\n"))
        for name in ("folder", "link", "pipe"):
            self.assertIn(f"[not attached by the relay: {name}: only regular files", result)

    def test_a_file_that_the_hub_refuses_is_told_in_the_result(self):
        self.hub.script("claim", claimed())
        self.hub.script("attachment", problem(413, "too_large"))
        self.start("once", 'echo much > "$TASKHUB_OUT/big"; echo 1 > "$TASKHUB_OUT/small"; echo done')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("result")[0]["result"], "done\n[not attached by the relay: big: About too_large.]")
        self.assertEqual([name for name, _, _ in self.hub.attached()], ["big", "small"])

    def test_a_failed_attempt_leaves_its_files_too(self):
        self.hub.script("claim", claimed())
        self.start("once", 'echo log > "$TASKHUB_OUT/log"; exit 75')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(len(self.hub.attached()), 1)

    def test_input_files_are_there_before_the_command_starts(self):
        data = os.urandom(300_000)
        self.hub.files["/files/f_1/a?exp=1&sig=s"] = data
        entry = {"id": "f_1", "name": "../ä b.bin", "sha256": hashlib.sha256(data).hexdigest(), "size": len(data),
                 "url": "https://elsewhere.example/files/f_1/a?exp=1&sig=s"}
        self.hub.script("claim", given(input_files=[entry, entry]))
        self.start("once", 'cd "$TASKHUB_IN" && ls && sha256sum -- *bin | cut -c-64')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("result")[0]["result"].split("\n"),
                         ["1-_ä b.bin", "_ä b.bin", entry["sha256"], entry["sha256"]])
        self.assertEqual([h["Authorization"] for path, _, h in self.hub.calls if path.startswith("/files")], [None, None])

    def test_a_damaged_or_missing_input_file_is_a_failure_worth_a_retry(self):
        self.hub.files["/files/f_1/a?"] = b"other"
        for url, said in (("http://hub/files/f_2/a?", "http_404"), ("http://hub/else", "no_link")):
            self.hub.script("claim", given(input_files=[{"name": "a", "sha256": "0" * 64, "url": url}]))
            self.start("once", "echo ran >&2; touch ran")
            self.assertEqual(self.exit_code(), 0)
            self.assertIn(said, self.log())
            self.assertEqual(self.hub.bodies("result")[-1]["retryable"], True)
            self.assertFalse((self.directory / "ran").exists())

    def test_nothing_is_left_behind(self):
        self.hub.script("claim", claimed())
        self.start("once", 'echo "$TASKHUB_OUT"; echo 1 > "$TASKHUB_OUT/file"; ls -ld "$TASKHUB_OUT/.."')
        self.assertEqual(self.exit_code(), 0)
        lines = self.hub.bodies("result")[0]["result"].split("\n")
        self.assertFalse(pathlib.Path(lines[0]).parent.exists())
        self.assertTrue(lines[1].startswith("drwx------"))


class Telling(RelayTest):
    def beats(self, field):
        return [body[field] for body in self.hub.bodies("heartbeat") if field in body]

    def test_progress_lines_are_notes_and_progress(self):
        self.hub.script("claim", given())
        self.start("run", 'echo "progress: 40% copying" >&2; while ! [ -e go ]; do sleep 0.05; done; echo "Progress: 0.9" >&2; '
                          'echo x > pids; sleep 300')
        wait_until(lambda: self.beats("progress"), "progress")
        (self.directory / "go").touch()
        wait_until(lambda: len(self.beats("progress")) == 2, "more progress")
        self.assertEqual((self.beats("progress"), self.beats("note")), ([0.4, 0.9], ["copying"]))

    def test_a_checkpoint_comes_from_the_attempt_before_and_goes_to_the_next(self):
        self.hub.script("claim", given(checkpoint={"page": 2}))
        self.start("once", 'cat "$TASKHUB_CHECKPOINT"; printf "{" > "$TASKHUB_CHECKPOINT"; sleep 0.5; '
                           'echo "{\\"page\\": 3}" > "$TASKHUB_CHECKPOINT"; exit 75')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.beats("checkpoint"), [{"page": 3}])
        self.assertIn('{"page": 2}', self.hub.bodies("result")[0]["error"])

    def test_a_checkpoint_travels_with_a_release(self):
        self.hub.script("claim", claimed())
        self.start("run", 'echo "[1]" > "$TASKHUB_CHECKPOINT"; echo $$ > pids; exec sleep 300')
        self.pids()
        self.process.terminate()
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("release")[0]["checkpoint"], [1])

    def test_a_checkpoint_that_is_no_json_is_told(self):
        self.hub.script("claim", claimed())
        self.start("once", 'echo "{" > "$TASKHUB_CHECKPOINT"')
        self.assertEqual(self.exit_code(), 0)
        self.assertIn("holds no JSON", self.log())


class Speaking(RelayTest):
    """The verbs inside a command, without a key or a token in its surroundings."""

    def test_an_action_a_note_and_a_file_by_the_socket(self):
        self.hub.script("claim", given())
        self.hub.script("action", None, Reply(200, {"first": False, "status": "unknown", "next": "Look first."}),
                        problem(409, "action_not_begun"))
        self.start("once", f'{ME} action begin s1 mail "{{\\"to\\": 1}}" || exit 9; {ME} action begin s1 mail; [ $? = 5 ] || exit 8; '
                           f'{ME} action done s2 mail --outcome "[1]"; [ $? = 1 ] || exit 7; '
                           f'{ME} heartbeat halfway --progress 0.5 >&2; echo hi > f; {ME} attach f --name g.txt >&2; '
                           f'{ME} claim --json | grep -c claim_token; env | grep -c exk_; {ME} task 2> /dev/null; echo end')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("result")[0]["result"].split("\n")[-3:], ["0", "0", "end"])
        first = self.hub.bodies("action")[0]
        self.assertEqual(first, {"task_id": "t_1", "claim_token": f"{TOKEN}.t_1", "step_id": "s1", "tool": "mail",
                                 "params": {"to": 1}, "status": "begin"})
        self.assertIn({"note": "halfway", "progress": 0.5, "task_id": "t_1", "claim_token": f"{TOKEN}.t_1"},
                      self.hub.bodies("heartbeat"))
        self.assertEqual([(name, body) for name, body, _ in self.hub.attached()], [("g.txt", b"hi\n")])

    def test_what_the_command_says_of_its_end_counts_before_its_output(self):
        self.hub.script("claim", claimed("t_1"), claimed("t_2"), claimed("t_3"), claimed("t_4"))
        self.start("once", f'case $TASKHUB_TASK_ID in t_1) {ME} defer 600 "not yet";; t_2) {ME} result --failed no --retryable;; '
                           f't_3) {ME} ask "which?";; t_4) {ME} release; exit 3;; esac; echo chatter')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("defer"), [{"task_id": "t_1", "claim_token": f"{TOKEN}.t_1", "seconds": 600,
                                                     "note": "not yet"}])
        self.assertEqual([(body["task_id"], body["status"]) for body in self.hub.bodies("result")],
                         [("t_2", "failed"), ("t_3", "blocked")])
        self.assertEqual([body["task_id"] for body in self.hub.bodies("release")], ["t_4"])

    def test_a_question_waits_under_heartbeats_that_do_not_take_it_back(self):
        self.hub.script("claim", given())
        answered = [{"from": "submitter", "text": "Blue."}]

        def beat(body):
            waits = body.get("state") == "input-required"
            asked = len([b for b in self.hub.bodies("heartbeat") if b.get("state") == "input-required"])
            return Reply(200, {"state": "input-required" if waits else "working", "messages": answered if asked > 4 else []})
        self.hub.script("heartbeat", then=beat)
        self.start("once", f'{ME} ask "Which colour?" --wait 20')
        self.assertEqual(self.exit_code(), 0)
        beats = self.hub.bodies("heartbeat")
        first = next(n for n, body in enumerate(beats) if body.get("question"))
        self.assertEqual(beats[first]["state"], "input-required")
        self.assertTrue(all(body.get("state") == "input-required" for body in beats[first:first + 5]), beats)
        self.assertNotIn("question", beats[first + 1])
        self.assertIn("submitter: Blue.", self.hub.bodies("result")[0]["result"])

    def test_a_question_that_stands_at_the_end_is_left_standing(self):
        self.hub.script("claim", given())
        self.hub.script("heartbeat", then=lambda body: Reply(200, {"state": body.get("state", "working"), "messages": []}))
        self.start("once", f'{ME} ask "Which?" --wait 0.5; echo "exit $?" >&2; echo nothing')
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual(self.hub.bodies("result"), [])
        self.assertIn("its question stands", self.log())

    def test_a_verb_after_the_end_says_that_it_is_over(self):
        self.hub.script("claim", given())
        self.hub.script("heartbeat", then=lambda body: problem(409, "lease_lost") if body.get("note") == "late" else None)
        self.start("once", f'trap "" TERM; {ME} heartbeat late; echo $? > code; exec sleep 300', "--grace", "1")
        self.assertEqual(self.exit_code(), 0)
        self.assertEqual((self.directory / "code").read_text().strip(), "4")
        self.assertEqual(self.hub.bodies("result"), [])


@unittest.skipUnless(sys.platform == "linux", "strays are found by /proc")
class Strays(RelayTest):
    STRAY = 'setsid sh -c \'trap "" TERM HUP; echo $$ > stray; exec sleep 300\' & while ! [ -s stray ]; do sleep 0.02; done; '

    def test_a_child_in_a_session_of_its_own_goes_with_the_lease(self):
        self.hub.script("claim", claimed(every=0.2))
        self.hub.script("heartbeat", then=lambda _: self.read("pids") and problem(409, "lease_lost"))
        self.start("run", self.STRAY + 'echo $$ > pids; wait', "--grace", "0.2")
        self.wait_for_death([*self.pids(), int(self.read("stray"))])

    def test_what_a_killed_relay_left_behind_goes_when_the_next_starts(self):
        temporary = {"TMPDIR": str(self.directory / "tmp")}
        os.mkdir(temporary["TMPDIR"])
        self.hub.script("claim", claimed())
        self.start("run", self.STRAY + 'echo $$ > pids; exec sleep 300', env=temporary)
        left = [*self.pids(), int(self.read("stray"))]
        self.process.kill()
        self.process.wait()
        self.assertTrue(all(map(is_alive, left)))
        folder, = (self.directory / "tmp").iterdir()
        os.utime(folder, (1, 1))
        self.start("once", "cat", env=temporary)
        self.assertEqual(self.exit_code(), 0)
        self.wait_for_death(left)
        self.assertFalse(folder.exists())

    def test_a_second_signal_leaves_no_stray(self):
        self.hub.script("claim", claimed())
        self.start("run", self.STRAY + 'echo $$ > pids; wait', "--grace", "3600")
        left = [*self.pids(), int(self.read("stray"))]
        self.process.terminate()
        self.wait_for_log("told to stop")
        self.process.terminate()
        self.assertEqual(self.exit_code(), 128 + signal.SIGTERM)
        self.wait_for_death(left)


class Models(RelayTest):
    """The presets, with programs in the models' places that behave as their documentation says."""

    def model(self, name, script):
        folder = self.directory / "bin"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f'#!/bin/sh\nfor a; do printf "%s\\n" "$a"; done > "{self.directory}/args"\n{script}\n')
        (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    def once(self, name, script, claim=None, **config):
        path = self.directory / "config" / "taskhub" / "relay.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"url": self.hub.url, "key": KEY, "runner": name, **config}))
        path.chmod(0o600)
        before = len(self.hub.bodies("result"))
        self.hub.script("claim", claim or given(messages=[{"from": "submitter", "text": "Blue."}]))
        self.start("once", env={"TASKHUB_KEY": "", "TASKHUB_URL": "", **self.model(name, script)})
        self.assertEqual(self.exit_code(), 0, self.log())
        self.assertNotIn(KEY, (self.directory / "args").read_text())
        return self.hub.bodies("result")[before]

    def args(self):
        return (self.directory / "args").read_text().split("\n")[:-1]

    def test_claude(self):
        said = json.dumps({"type": "result", "is_error": False, "result": "Booked.", "session_id": "s-1"})
        result = self.once("claude", f"cat > {self.directory}/prompt; echo '{said}'", arguments=["--model", "x"])
        self.assertEqual((result["status"], result["result"]), ("completed", "Booked."))
        self.assertEqual(self.args()[:5], ["--model", "x", "-p", "--output-format", "json"])
        prompt = (self.directory / "prompt").read_text()
        for text in ("Do it — größer.", "Title of t_1", "submitter: Blue.", "the owner's words", "ASK:", "action begin"):
            self.assertIn(text, prompt)

    def test_claude_that_asks_goes_on_in_its_session_and_a_broken_session_is_forgotten(self):
        asks = json.dumps({"is_error": False, "result": "ASK: Friday or Saturday?", "session_id": "s-1"})
        result = self.once("claude", f"cat > /dev/null; echo '{asks}'")
        self.assertEqual((result["status"], result["question"]), ("blocked", "Friday or Saturday?"))
        result = self.once("claude", "echo no such session >&2; exit 1")
        self.assertEqual(self.args()[-2:], ["--resume", "s-1"])
        self.assertEqual((result["status"], result["retryable"]), ("failed", True))
        result = self.once("claude", "exit 1")
        self.assertNotIn("--resume", self.args())
        self.assertEqual(result["retryable"], False)

    def test_claude_that_says_it_failed(self):
        said = json.dumps({"is_error": True, "result": "Credit balance is too low"})
        result = self.once("claude", f"echo '{said}'")
        self.assertEqual(result["status"], "failed")
        self.assertIn("Credit balance", result["error"])

    def test_codex(self):
        script = """while [ $# -gt 0 ]; do [ "$1" = --output-last-message ] && answer=$2; shift; done
            echo '{"type":"thread.started","thread_id":"0199-a"}'; cat > /dev/null; echo '{"type":"item"}'
            printf 'ASK: Which?' > "$answer" """
        result = self.once("codex", script, arguments=["--model", "x"])
        self.assertEqual((result["status"], result["question"]), ("blocked", "Which?"))
        self.assertEqual(self.args()[:3], ["exec", "--model", "x"])
        result = self.once("codex", script.replace("ASK: Which?", "Done."))
        self.assertEqual(result["result"], "Done.")
        self.assertEqual(self.args()[-3:], ["resume", "0199-a", "-"])
        stream = [{"type": "thread.started", "thread_id": "0199-a"},
                  {"type": "item.completed", "item": {"type": "agent_message", "text": "Halfway."}},
                  {"type": "item.completed", "item": {"type": "agent_message", "text": "All done."}}, {"type": "turn.completed"}]
        lines = "\n".join(map(json.dumps, stream))
        self.assertEqual(self.once("codex", f"cat > /dev/null; printf '%s\n' '{lines}'")["result"], "All done.")

    def test_grok(self):
        script = """while [ $# -gt 0 ]; do [ "$1" = --prompt-file ] && grep -c "Title of t_1" "$2" >&2; shift; done
            echo '{"text":"Done.","stopReason":"%s","sessionId":"g-1"}'"""
        self.assertEqual(self.once("grok", script % "EndTurn")["result"], "Done.")
        self.assertEqual(self.once("grok", script % "Cancelled")["status"], "failed")

    def test_gemini(self):
        result = self.once("gemini", "cat > /dev/null; echo 'Loaded cached credentials.'; "
                                     "printf '{\\n \"response\": \"Done.\",\\n \"stats\": {}\\n}\\n'")
        self.assertEqual(result["result"], "Done.")

    def test_an_answer_in_another_form_than_expected_is_the_result_as_it_stands(self):
        self.assertEqual(self.once("gemini", "echo plain words")["result"], "plain words")

    def test_echo_is_deterministic(self):
        self.hub.script("claim", given())
        self.start("once", "", "--runner", "echo")
        self.assertEqual(self.exit_code(), 0, self.log())
        self.assertIn("# Task t_1: Title of t_1", self.hub.bodies("result")[0]["result"])


if __name__ == "__main__":
    unittest.main()

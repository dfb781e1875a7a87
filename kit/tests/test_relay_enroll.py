"""Enrolling, relay.json and doctor, as a subprocess against a scripted hub, in folders of the test's own."""
import hashlib
import json
import os
import pathlib
import stat
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from test_relay import KEY, LOST, RELAY, Reply, RelayTest, claimed, problem  # noqa: E402

CODE = "enr_tester.c2VjcmV0LWNvZGU.1000000600.bWFj"


class Installed(RelayTest):
    """A user with nothing but a PATH, on which there are only the programs that a test puts there."""

    def setUp(self):
        super().setUp()
        self.bin = self.directory / "bin"
        self.bin.mkdir()
        self.config = self.directory / "config" / "taskhub" / "relay.json"

    def program(self, name, script="echo 1.2.3"):
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def relay(self, *arguments, env=None):
        done = subprocess.run([sys.executable, RELAY, *arguments], capture_output=True, text=True, check=False, timeout=60,
                              cwd=self.directory, stdin=subprocess.DEVNULL, env={
                                  "PATH": f"{self.bin}:/bin:/usr/bin", "HOME": str(self.directory),
                                  "XDG_CONFIG_HOME": str(self.directory / "config"),
                                  "XDG_STATE_HOME": str(self.directory / "state"), **(env or {})})
        for secret in (KEY, CODE):
            self.assertNotIn(secret, done.stdout + done.stderr)
        return done

    def end(self):
        pass

    def enroll(self, *options):
        self.hub.script("enroll", then=Reply(200, {"executor": "tester", "key": KEY, "hub": self.hub.url}))
        done = self.relay("enroll", "--url", self.hub.url, *options, CODE)
        self.assertEqual(done.returncode, 0, done)
        return done, json.loads(self.config.read_text())


class Enrolling(Installed):
    def test_a_code_becomes_a_key_in_a_private_file(self):
        self.program("codex")
        done, config = self.enroll("--queues", "a, b", "--concurrency", "2")
        self.assertEqual({name: config[name] for name in config if name != "path"}, {
            "url": self.hub.url, "executor": "tester", "key": KEY, "runner": "codex", "command": None,
            "queues": ["a", "b"], "concurrency": 2})
        self.assertEqual(stat.S_IMODE(self.config.stat().st_mode), 0o600)
        self.assertEqual(stat.S_IMODE(self.config.parent.stat().st_mode), 0o700)
        self.assertEqual(os.listdir(self.config.parent), ["relay.json"])
        self.assertIn("executor tester", done.stdout)
        path, body, headers = self.hub.calls[0]
        self.assertEqual((path, body["code"], headers["Authorization"]), ("/executor/enroll", CODE, None))

    def test_a_lost_answer_is_asked_for_with_the_same_nonce(self):
        self.hub.script("enroll", LOST, Reply(400, {"code": "bad_request", "detail": "Not now."}))
        done = self.relay("enroll", "--url", self.hub.url, CODE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("Not now.", done.stderr)
        self.assertFalse(self.config.exists())
        self.enroll()
        self.assertEqual(len({body["nonce"] for body in self.hub.bodies("enroll")}), 1)

    def test_a_code_that_was_used_says_what_the_hub_says(self):
        self.hub.script("enroll", then=problem(409, "code_used"))
        done = self.relay("enroll", "--url", self.hub.url, CODE)
        self.assertEqual(done.returncode, 1)
        self.assertIn("code_used: About code_used.", done.stderr)

    def test_what_is_no_code_is_not_sent(self):
        done = self.relay("enroll", "--url", self.hub.url, "exk_a.b.c")
        self.assertEqual((done.returncode, self.hub.calls), (2, []))
        self.assertIn("begins with enr_", done.stderr)

    def test_without_a_runner_it_says_so_and_a_second_time_keeps_what_was_set(self):
        done, config = self.enroll()
        self.assertIsNone(config["runner"])
        self.assertIn("none of claude, codex, grok, gemini is on PATH", done.stdout)
        _, config = self.enroll("--command", "cat; echo done", "--queues", "a")
        self.assertEqual(config["command"], ["/bin/sh", "-c", "cat; echo done"])
        _, config = self.enroll()
        self.assertEqual((config["command"], config["queues"]), (["/bin/sh", "-c", "cat; echo done"], ["a"]))

    def test_what_was_enrolled_is_what_once_runs(self):
        self.enroll("--command", 'echo "did $TASKHUB_TASK_ID"; env', "--queues", "a")
        self.hub.script("claim", claimed())
        done = self.relay("once")
        self.assertEqual(done.returncode, 0, done)
        result = self.hub.bodies("result")[0]["result"]
        self.assertIn("did t_1", result)
        self.assertNotIn(KEY, result)
        self.assertEqual(self.hub.bodies("claim")[0]["queues"], ["a"])

    def test_the_key_of_one_hub_is_not_sent_to_another(self):
        self.enroll("--command", "cat")
        calls = len(self.hub.calls)
        done = self.relay("ping", env={"TASKHUB_URL": "http://127.0.0.1:9"})
        self.assertEqual(done.returncode, 2)
        self.assertIn("is not sent to http://127.0.0.1:9", done.stderr)
        self.assertEqual(len(self.hub.calls), calls)

    def test_a_config_that_is_broken_is_named(self):
        self.enroll("--command", "cat")
        for text, said in (("{", "is not JSON"), ("[]", "one JSON object"), ('{"queues": "a"}', "queues must be a list"),
                           ('{"concurrency": true}', "concurrency must be")):
            self.config.write_text(text)
            done = self.relay("once")
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)


class Doctor(Installed):
    def checks(self, *arguments, **more):
        done = self.relay("doctor", "--json", *arguments, **more)
        checks = {check["name"]: check for check in json.loads(done.stdout)}
        wrong = sorted(name for name, check in checks.items() if check["state"] == "wrong")
        self.assertEqual(done.returncode, 1 if wrong else 0)
        self.assertTrue(all(check["todo"] for check in checks.values() if check["state"] != "ok"))
        return checks, wrong

    def test_all_is_well_after_enrolling_but_for_the_clock(self):
        self.program("claude", "echo 2.0.1")
        self.enroll()
        checks, wrong = self.checks()
        self.assertEqual(wrong, [])
        self.assertIn("2.0.1", checks["runner"]["says"])
        self.assertEqual((checks["clock"]["state"], checks["key"]["state"]), ("note", "ok"))  # The scripted hub lives in 2001.
        self.assertIn("ahead of the hub", checks["clock"]["says"])
        self.assertIn("all is well", self.relay("doctor").stdout)

    def test_an_empty_machine(self):
        _, wrong = self.checks()
        self.assertEqual(wrong, ["config", "hub"])

    def test_files_that_others_can_read(self):
        self.enroll("--command", "cat")
        self.config.chmod(0o644)
        (self.directory / "state" / "taskhub").mkdir(parents=True)
        (self.directory / "state" / "taskhub").chmod(0o755)
        checks, wrong = self.checks()
        self.assertEqual(wrong, ["config", "state"])
        self.assertIn("chmod 600", checks["config"]["todo"])

    def test_a_key_that_was_revoked(self):
        self.enroll("--command", "cat")
        self.hub.script("ping", then=problem(401, "unauthorized"))
        checks, wrong = self.checks()
        self.assertEqual(wrong, ["key"])
        self.assertIn("enroll again", checks["key"]["todo"])

    def test_a_hub_that_is_not_there(self):
        self.enroll("--command", "cat")
        self.config.write_text(self.config.read_text().replace(self.hub.url, "http://127.0.0.1:9"))
        checks, wrong = self.checks()
        self.assertEqual(wrong, ["network"])
        self.assertIn("no connection", checks["network"]["says"])

    def test_a_port_that_speaks_no_tls(self):
        self.enroll("--command", "cat")
        self.config.write_text(self.config.read_text().replace("http://", "https://"))
        _, wrong = self.checks()
        self.assertEqual(wrong, ["tls"])

    def test_a_runner_that_is_gone(self):
        self.program("gemini", "exit 3")
        self.enroll("--runner", "gemini")
        self.assertEqual(self.checks()[1], ["runner"])
        (self.bin / "gemini").unlink()
        self.assertIn("cannot find", self.checks()[0]["runner"]["says"])

    def test_a_service_that_does_not_run(self):
        self.enroll("--command", "cat")
        unit = self.directory / "config" / "systemd" / "user" / "taskhub-relay.service"
        unit.parent.mkdir(parents=True)
        unit.touch()
        self.program("systemctl", "echo failed; exit 3")
        self.assertEqual(self.checks()[1], ["service"])
        self.program("systemctl", "echo active")
        self.program("loginctl", "echo no")
        checks, wrong = self.checks()
        self.assertEqual((wrong, checks["service"]["state"]), ([], "note"))
        self.assertIn("enable-linger", checks["service"]["todo"])

    def test_another_version_than_the_hubs(self):
        self.enroll("--command", "cat")
        own = hashlib.sha256(RELAY.read_bytes()).hexdigest()
        for offered, state in ((own, "ok"), ("0" * 64, "note")):
            self.hub.files["/kit/SHA256SUMS"] = f"{'1' * 64}  SKILL.md\n{offered}  relay.py\n".encode()
            self.assertEqual(self.checks()[0]["version"]["state"], state)


if __name__ == "__main__":
    unittest.main()

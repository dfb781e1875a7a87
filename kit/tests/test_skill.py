"""SKILL.md says only what the relay and the hub understand, and is short enough to be read every time."""
import json
import pathlib
import re
import shlex
import sys
import unittest

KIT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(KIT))
import relay  # noqa: E402

TEXT = (KIT / "SKILL.md").read_text()
CALLS = {"claim", "heartbeat", "action", "result", "defer", "release"}


class Skill(unittest.TestCase):
    def test_it_is_a_skill_and_short(self):
        head = re.match(r"---\nname: ([a-z-]+)\ndescription: (.+)\n---\n", TEXT)
        self.assertEqual(head[1], "taskhub")
        self.assertLessEqual(len(head[2]), 500)
        self.assertLessEqual(len(TEXT.splitlines()), 120)
        self.assertIn("@HUB_URL@", TEXT)

    def test_each_verb_of_the_relay_is_shown_as_the_relay_takes_it(self):
        shown = {}
        for line in re.findall(r"^taskhub-relay .*", TEXT, re.MULTILINE):
            words = [word for word in shlex.split(line, comments=True)[1:] if word != "&"]
            options, _ = relay.parse_arguments(words)
            shown[options.verb] = options
        self.assertEqual(set(shown), set(relay.AGENT_VERBS))
        for name in ("params", "outcome", "checkpoint"):
            for options in shown.values():
                relay.json_argument(getattr(options, name, None), name)

    def test_each_call_with_curl_is_json_with_a_task_and_a_token(self):
        calls = re.findall(r"^hub (\w+) '(\{[^']*\})'", TEXT, re.MULTILINE)
        self.assertEqual({call for call, _ in calls}, CALLS)
        for call, body in calls:
            fields = json.loads(body)
            self.assertEqual({"task_id", "claim_token"} <= set(fields), call != "claim", body)

    def test_the_exit_codes_are_the_relays(self):
        self.assertEqual((relay.EXIT_NOTHING, relay.EXIT_LOST, relay.EXIT_LOOK), (3, 4, 5))
        for text in ("3 nothing to do", "4 the task is no longer yours", "5 do not do that action yet"):
            self.assertIn(text, TEXT)


if __name__ == "__main__":
    unittest.main()

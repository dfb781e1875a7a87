"""What a command, its files, or a strange hub may do to the relay: the attempt may fail by it, the relay goes on."""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import relay  # noqa: E402
from test_relay import RelayTest, claimed, is_alive  # noqa: E402
from test_relay_runs import given  # noqa: E402

DEEP = "import os\nfor _ in range(1500):\n    os.mkdir('d'); os.chdir('d')\nopen('leaf', 'w').close()"


class Commands(RelayTest):
    def setUp(self):
        super().setUp()
        self.temporary = self.directory / "tmp"
        self.temporary.mkdir()
        self.addCleanup(os.system, f"rm -rf '{self.temporary}'")

    def run_once(self, script, *claims, **env):
        self.hub.script("claim", *(claims or [given()]))
        self.start("once", script, env={"TMPDIR": str(self.temporary), **env})
        self.assertEqual(self.exit_code(), 0, self.log())
        self.assertEqual(list(self.temporary.iterdir()), [])
        return self.hub.bodies("result")

    def test_folders_too_deep_to_walk_by_recursion(self):
        result = self.run_once(f'cd "$TASKHUB_OUT" && echo 1 > file && "{sys.executable}" -c "{DEEP}"; echo done',
                               claimed("t_1"), claimed("t_2"))
        self.assertEqual([body["status"] for body in result], ["completed", "completed"])
        self.assertIn("file", [name for name, _, _ in self.hub.attached()])

    def test_a_deep_folder_of_a_killed_relay_stops_no_other(self):
        left = self.temporary / "taskhub-relay-left"
        (left / "out").mkdir(parents=True)
        os.system(f'cd "{left}/out" && "{sys.executable}" -c "{DEEP}"')
        self.assertEqual(self.run_once("echo done")[0]["status"], "completed")

    @unittest.skipIf(os.getuid() == 0 and not shutil.which("setpriv"), "root may remove all")
    def test_folders_that_forbid_writing_go_too(self):
        folder = self.temporary / "taskhub-relay-x"
        (folder / "out" / "module").mkdir(parents=True)
        (folder / "out" / "module" / "file").touch()
        (folder / "out" / "module").chmod(0o555)
        (folder / "out" / "shut").mkdir(mode=0)
        kit = str(pathlib.Path(relay.__file__).parent)
        code = f"import sys; sys.path.insert(0, {kit!r}); import relay; relay.remove_tree({str(folder)!r})"
        if os.getuid() == 0:
            for place in (self.directory, self.temporary, folder, *folder.rglob("*")):
                os.chown(place, 65534, 65534)
            os.system(f"""setpriv --reuid 65534 --clear-groups "{sys.executable}" -c "{code}" """)
        else:
            relay.remove_tree(str(folder))
        self.assertFalse(folder.exists())

    def test_a_checkpoint_that_is_no_file_blocks_nothing(self):
        for made in ('mkfifo "$TASKHUB_CHECKPOINT"', 'mkdir "$TASKHUB_CHECKPOINT"',
                     f'echo "[1]" > {self.directory}/other; ln -s {self.directory}/other "$TASKHUB_CHECKPOINT"'):
            with self.subTest(made):
                before = len(self.hub.bodies("heartbeat"))
                result = self.run_once(f'{made}; sleep 1; echo done')
                self.assertEqual(result[-1]["status"], "completed")
                beats = self.hub.bodies("heartbeat")[before:]
                self.assertGreater(len(beats), 2)
                self.assertFalse([body for body in beats if "checkpoint" in body])
                self.assertIn("checkpoint", self.log())

    def test_a_checkpoint_that_is_json_for_nobody_else_is_told_and_not_sent(self):
        for text in ("[" * 60_000, "NaN", '{"a": 1e999}'):
            with self.subTest(text[:9]):
                before = len(self.hub.bodies("heartbeat"))
                result = self.run_once(f"printf '%s' '{text}' > \"$TASKHUB_CHECKPOINT\"; sleep 1; echo done")
                self.assertEqual(result[-1]["status"], "completed")
                beats = self.hub.bodies("heartbeat")[before:]
                self.assertGreater(len(beats), 2)
                self.assertFalse([body for body in beats if "checkpoint" in body])
                self.assertIn("holds no JSON", self.log())

    def test_names_that_become_the_same_are_told_apart(self):
        entries = [{"name": name, "sha256": "", "url": ""} for name in ("2-a", "A", "a", "a?", "a*", "5-a_")]
        names = [name for name, _ in relay.input_files({"input_files": entries})]
        self.assertEqual(len({name.lower() for name in names}), 6)

    def test_a_huge_file_is_told_and_not_read(self):
        self.hub.limits["attachment_bytes_max"] = 1_000
        result = self.run_once('truncate -s 2T "$TASKHUB_OUT/huge"; echo x > "$TASKHUB_OUT/small"; echo done')
        self.assertIn("huge: it has 2199023255552 bytes; the hub takes at most 1000", result[0]["result"])
        self.assertEqual([name for name, _, _ in self.hub.attached()], ["small"])

    def test_an_out_folder_that_has_become_a_link_is_left_alone(self):
        (self.directory / "private").mkdir()
        (self.directory / "private" / "secret").touch()
        result = self.run_once(f'rmdir "$TASKHUB_OUT"; ln -s {self.directory}/private "$TASKHUB_OUT"; echo done')
        self.assertEqual(self.hub.attached(), [])
        self.assertIn("not attached", result[0]["result"])

    def test_a_machine_without_room_gives_the_task_back_and_spends_no_attempt(self):
        (self.directory / "sitecustomize.py").write_text(
            "import errno, os, tempfile\n"
            "def full(*_, **__): raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
            "tempfile.mkdtemp = full\n")
        self.hub.script("claim", given(), given())
        self.start("once", "echo done", env={"PYTHONPATH": str(self.directory)})
        self.assertEqual(self.exit_code(), 1, self.log())
        self.assertEqual(len(self.hub.bodies("claim")), 1, "it claims no second one")
        self.assertEqual(self.hub.bodies("result"), [])
        self.assertIn("No space left", self.hub.bodies("release")[0]["note"])
        self.assertIn("make room", self.log())

    def test_a_flood_of_connections_takes_no_heartbeat_away(self):
        flood = ("import os, socket, time; kept = []\n"
                 "for _ in range(400):\n"
                 "    s = socket.socket(socket.AF_UNIX); s.setblocking(False); kept.append(s)\n"
                 "    try: s.connect(os.environ['TASKHUB_SOCKET'])\n"
                 "    except BlockingIOError: pass\n"
                 "    time.sleep(0.002)\n"
                 "time.sleep(1); print('done')")
        result = self.run_once(f'"{sys.executable}" -c "{flood}"')
        self.assertEqual(result[0]["status"], "completed")
        self.assertNotIn("no answer", self.log())

    def test_a_result_by_word_leaves_room_for_what_the_relay_says(self):
        self.hub.limits["result_bytes_max"] = 2_000
        self.run_once(f'mkfifo "$TASKHUB_OUT/pipe"; head -c 2000 /dev/zero | tr "\\0" x > text; '
                      f'"{sys.executable}" "$TASKHUB_RELAY" result --file text > /dev/null')
        text = self.hub.bodies("result")[0]["result"]
        self.assertLessEqual(len(text.encode()), 2_000)
        self.assertIn("[not attached by the relay: pipe", text)


@unittest.skipUnless(sys.platform == "linux", "processes are found by /proc")
class Killed(RelayTest):
    def test_what_a_relay_left_that_was_killed_a_moment_ago_goes_too(self):
        env = {"TMPDIR": str(self.directory)}
        self.hub.script("claim", claimed())
        self.start("run", "echo $$ > pids; exec sleep 300", env=env)
        left = self.pids()
        self.process.kill()
        self.process.wait()
        self.start("once", "cat", env=env)
        self.assertEqual(self.exit_code(), 0)
        self.assertFalse([pid for pid in left if is_alive(pid)])
        self.assertEqual(list(self.directory.glob("taskhub-relay-*")), [])


class Hubs(unittest.TestCase):
    def test_json_that_is_none_is_refused_in_one_way(self):
        for text in ("[" * 100_000, "NaN", "-Infinity", "1e999", "", "{", "1" * 5_000):
            with self.subTest(text[:9]), self.assertRaises(ValueError):
                relay.parsed(text)
        self.assertEqual(relay.parsed('{"a": 1.5}'), {"a": 1.5})

    def test_numbers_out_of_this_world_are_none(self):
        for value in (float("inf"), float("nan"), 10 ** 400, -10 ** 400, True, "1", None):
            self.assertEqual(relay.number(value, 7), 7)
        self.assertEqual((relay.number(0), relay.number(1_796_000_000_000)), (0, 1_796_000_000_000))


if __name__ == "__main__":
    unittest.main()

"""The relay's decisions, one by one: pure functions and small values, no network, no process, no waiting."""
import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import relay  # noqa: E402


def claim(asked_at=100.0, received_at=100.5, **changed):
    answer = {"task": {"id": "t_1", "title": "a\nb", "deadline_at": None}, "attempt": 2, "claim_token": "tok",
              "lease_expires_at": 5_000_000, "lease_seconds": 300, "heartbeat_every_seconds": 100, "context": {}}
    answer["task"].update(changed.pop("task", {}))
    return relay.Claim({**answer, **changed}, asked_at, received_at)


class Refusals(unittest.TestCase):
    def refusal(self, status, body=b"", **headers):
        return relay.refusal_from(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)

    def test_problem_json_decides(self):
        error = self.refusal(503, b'{"code":"busy","detail":"Wait.","retryable":false,"retry_after_seconds":7}')
        self.assertEqual((error.code, error.detail, error.retryable, error.retry_after), ("busy", "Wait.", False, 7))
        self.assertTrue(self.refusal(409, b'{"code":"x","detail":"d","retryable":true}').retryable)

    def test_without_problem_json_the_status_decides(self):
        for status, retryable in ((500, True), (502, True), (530, True), (429, True), (408, True),
                                  (400, False), (404, False), (413, False), (302, False)):
            for body in (b"", b"<html>", b"[1]", b'"text"', b'{"retryable":"yes","detail":7,"code":null}'):
                error = self.refusal(status, body)
                self.assertEqual((error.retryable, error.code), (retryable, f"http_{status}"), body)

    def test_unauthorized_is_never_retried(self):
        self.assertFalse(self.refusal(401, b'{"code":"unauthorized","retryable":true}').retryable)

    def test_retry_after_header(self):
        self.assertEqual(self.refusal(503, Retry_After="12").retry_after, 12)
        self.assertIsNone(self.refusal(503, Retry_After="Wed, 21 Oct 2026 07:28:00 GMT").retry_after)

    def test_redirect_names_its_target(self):
        self.assertIn("https://other.example", self.refusal(308, Location="https://other.example").detail)

    def test_verdicts(self):
        for status, code, verdict in (
                (409, "lease_lost", "lost"), (409, "canceled", "canceled"), (409, "not_working", "lost"),
                (409, "already_finished", "finished"), (404, "task_not_found", "lost"), (404, "not_found", None),
                (401, "unauthorized", "unauthorized"), (400, "bad_request", None), (500, "internal", None),
                (403, "executor_disabled", "lost"), (0, "no_answer", None)):
            self.assertEqual(relay.verdict_of(relay.HubError(status, code, "", False)), verdict, code)
            self.assertIn(verdict, [None, *relay.STOPPED])


class Pauses(unittest.TestCase):
    def test_backoff_grows_to_its_limit_with_jitter(self):
        longest = [relay.backoff_seconds(failures, None, 1.0) for failures in (1, 2, 3, 6, 7, 10_000)]
        self.assertEqual(longest, [0.25, 0.5, 1, 8, 16, 30])
        self.assertEqual(relay.backoff_seconds(9, None, 0.0), 15)

    def test_the_hub_may_ask_for_more(self):
        self.assertEqual(relay.backoff_seconds(1, 60, 1.0), 60.25)
        self.assertEqual(relay.backoff_seconds(1, 10**9, 1.0), relay.RETRY_AFTER_SECONDS_MAX + 0.25)
        self.assertEqual(relay.backoff_seconds(1, -5, 1.0), 0.25)

    def test_empty_polls_are_never_back_to_back(self):
        self.assertEqual(relay.poll_pause(0.25), 0.75)
        self.assertEqual(relay.poll_pause(25), 0)


class Persisting(unittest.TestCase):
    def test_one_last_try_when_time_is_up(self):
        lasts = []

        def call(last):
            lasts.append(last)
            raise relay.HubError(0, "no_answer", "", True)
        with self.assertRaises(relay.HubError):
            relay.persist(call, lambda: 0 if lasts else float("inf"))
        self.assertEqual(lasts, [False, True])

    def test_a_refusal_for_good_ends_it(self):
        def call(_last):
            raise relay.HubError(409, "lease_lost", "", False)
        with self.assertRaises(relay.HubError):
            relay.persist(call, lambda: float("inf"))


class Stopping(unittest.TestCase):
    def test_reasons_and_their_order(self):
        for arguments, reason in (
                ((10, 100, 5, None, None, False), None),
                ((94.9, 100, 5, None, None, False), None),
                ((95, 100, 5, None, None, False), "unreachable"),
                ((50, 100, 5, 50, None, False), "deadline"),
                ((50, 100, 5, 51, None, False), None),
                ((99, 100, 5, 51, None, True), "shutdown"),
                ((99, 100, 5, 51, "canceled", True), "canceled")):
            self.assertEqual(relay.why_stop(*arguments), reason, arguments)

    def test_dead_before_the_lease_ends(self):
        for lease in (1, 3, 10, 60, 300, 86_400):
            for grace in (0, 0.5, 5, 60, 3600):
                guard = relay.guard_seconds(lease, grace)
                self.assertLessEqual(guard, lease / 4)
                self.assertLess(relay.grace_for("unreachable", grace, guard), guard)

    def test_grace(self):
        self.assertEqual(relay.grace_for("lost", 5, 200), relay.GRACE_LOST_SECONDS_MAX)
        self.assertEqual(relay.grace_for("shutdown", 5, 200), 5)
        self.assertEqual(relay.grace_for("unreachable", 5, -3), 0)


class Leases(unittest.TestCase):
    def test_counted_from_before_the_call(self):
        one = claim()
        self.assertEqual((one.lease_end, one.beat_due, one.confirmed, one.title), (400, 200, True, "a b"))
        one.renew({"lease_expires_at": 5_100_000, "heartbeat_every_seconds": 100}, 200.0, 209.0)
        self.assertEqual((one.lease_end, one.beat_due), (500, 300))

    def test_a_claim_that_took_long_is_confirmed_first(self):
        one = claim(asked_at=100.0, received_at=201.0)
        self.assertEqual((one.confirmed, one.beat_due, one.lease_end), (False, 201, 501))
        one.renew({}, 201.0, 202.0)
        self.assertEqual((one.confirmed, one.lease_end), (True, 501))

    def test_long_polls_of_a_usual_lease_need_no_extra_heartbeat(self):
        self.assertTrue(claim(asked_at=100.0, received_at=125.0).confirmed)

    def test_a_hub_that_shortens_its_leases(self):
        one = claim()
        one.renew({"heartbeat_every_seconds": 10}, 200.0, 200.0)
        self.assertEqual((one.lease_end, one.beat_due), (230, 210))
        often = claim(heartbeat_every_seconds=20)
        often.renew({"heartbeat_every_seconds": 20}, 200.0, 200.0)
        self.assertEqual((often.lease_end, often.beat_due), (500, 220), "often is not short")

    def test_odd_numbers(self):
        self.assertEqual(claim(lease_seconds=None).lease_end, 400)
        short = claim(lease_seconds=1, heartbeat_every_seconds=1, received_at=100.1)
        self.assertAlmostEqual(short.beat_due, 100 + 1 / 3)
        for broken in ({"heartbeat_every_seconds": None}, {"heartbeat_every_seconds": 0}, {"lease_seconds": -1},
                       {"attempt": "x"}):
            with self.assertRaises((ValueError, TypeError)):
                claim(**broken)

    def test_deadline_needs_no_clock_of_ours(self):
        # Granted at 4,700,000 by the hub's clock; the deadline is 60 s after that.
        one = claim(task={"deadline_at": 4_760_000})
        self.assertEqual(one.deadline, 160.5)
        one.renew({"lease_expires_at": 5_040_000, "heartbeat_every_seconds": 100}, 139.0, 140.5)
        self.assertEqual(one.deadline, 160.5)

    def test_the_token_is_not_in_the_payload(self):
        self.assertNotIn("tok", claim().payload)
        self.assertIn('"attempt": 2', claim().payload)


class Outcomes(unittest.TestCase):
    def test_exit_codes(self):
        self.assertEqual(relay.outcome_of(0, "out", "noise"), {"status": "completed", "result": "out"})
        for code, retryable, error in ((75, True, "exit code 75: err"), (1, False, "exit code 1: err"),
                                       (143, False, "exit code 143: err"), (-9, True, "killed by SIGKILL: err"),
                                       (-250, True, "killed by 250: err")):
            self.assertEqual(relay.outcome_of(code, "out", "err"),
                             {"status": "failed", "retryable": retryable, "error": error})

    def test_something_is_always_said(self):
        self.assertEqual(relay.outcome_of(1, "only stdout", "")["error"], "exit code 1: only stdout")
        self.assertIn("nothing that says why", relay.outcome_of(1, "", "")["error"])
        self.assertLess(len(relay.outcome_of(1, "", "x" * 100_000)["error"]), 8_000)


class Texts(unittest.TestCase):
    def test_results_that_fit(self):
        self.assertEqual(relay.result_text("grüße\r\n\n".encode(), 0, 100), "grüße")
        self.assertEqual(relay.result_text(b"a\0b\xffc\xe2\x82", 0, 100), "ab\ufffdc\ufffd")
        self.assertEqual(relay.result_text(b"x" * 100, 0, 100), "x" * 100)
        self.assertEqual(relay.result_text(b"x" * 100 + b"\n", 0, 100), "x" * 100)

    def test_results_that_do_not(self):
        for raw in (b"x" * 500, "€".encode() * 200, "😀".encode() * 100, b"\xff" * 300, b"\0" * 104):
            for limit in (0, 10, 99, 100, 101, 102, 103):
                for kept in (limit + 1, limit + 4):
                    dropped = max(0, len(raw) - kept)
                    text = relay.result_text(raw[:kept], dropped, limit)
                    self.assertLessEqual(len(text.encode()), limit)
                    self.assertNotIn("\0", text)
                    if limit > 90 and (dropped or raw[:1] != b"\0"):
                        self.assertTrue(text.endswith(f"the command wrote {len(raw)}]"), text)
                    if raw[:1] != b"\xff":
                        self.assertNotIn("\ufffd", text, "cut inside a character")

    def test_output_is_bounded(self):
        output = relay.Output(100)
        for _ in range(50):
            output.feed_stdout(b"x" * 1000)
            output.feed_stderr(b"y" * 100_000)
        self.assertEqual((len(output.head), output.dropped), (104, 49_896))
        self.assertLessEqual(len(output.tail) + len(output._partial), 2 * relay.TAIL_BYTES)

    def test_last_line_of_stderr(self):
        output = relay.Output(100)
        for data, line in ((b"one\ntw", "one"), (b"o\n\n  \n", "two"), (b"10%\r20%\r", "20%"),
                           (b"\x1b[31mred\x1b[0m\x07\n", "red"), (b"\xff\xfe\n", "red"),
                           ("grün\n".encode(), "grün"), (b"unfinished", "grün")):
            output.feed_stderr(data)
            self.assertEqual(output.line, line, data)

    def test_readable(self):
        self.assertEqual(relay.readable(b"\x82\xacrest\r\n\x1b]0;title\x07a\tb\0\n"), "rest\na\tb")

    def test_one_line(self):
        self.assertEqual(relay.one_line("a\nb\x1b[2J \u202ec", 100), "a b [2J c")
        self.assertEqual(relay.one_line("abcdef", 4), "abc…")


class Surroundings(unittest.TestCase):
    def test_environment_of_the_command(self):
        environ = {"PATH": "/bin", "TASKHUB_KEY": "exk_a.b.c", "COPY": "Bearer exk_a.b.c"}
        self.assertEqual(relay.child_environment(environ, "exk_a.b.c", claim(), "https://hub.example"), {
            "PATH": "/bin", "TASKHUB_TASK_ID": "t_1", "TASKHUB_ATTEMPT": "2", "TASKHUB_URL": "https://hub.example"})

    def test_addresses(self):
        for url, parts in (("https://hub.example/", ("https", "hub.example", None, "")),
                           ("https://hub.example:8443/x/", ("https", "hub.example", 8443, "/x")),
                           ("http://127.0.0.1:8787", ("http", "127.0.0.1", 8787, "")),
                           ("http://localhost", ("http", "localhost", None, "")),
                           ("http://[::1]:1", ("http", "::1", 1, ""))):
            self.assertEqual(relay.hub_address(url, False), parts)
        for url in ("hub.example", "ftp://hub.example", "https://", "https://a:b@hub.example", "https://hub.example?x",
                    "https://hub.example:port", "http://hub.example", "http://192.168.1.4:8787"):
            with self.assertRaises(ValueError, msg=url):
                relay.hub_address(url, False)
        self.assertEqual(relay.hub_address("http://192.168.1.4:8787", True)[1], "192.168.1.4")

    def test_a_log_line_never_carries_a_secret(self):
        log, written = relay.Log(), io.StringIO()
        log.secrets.update(("exk_secret", "tok_secret"))
        with contextlib.redirect_stderr(written):
            log("key exk_secret\n and tok_secret")
        self.assertRegex(written.getvalue(),
                         r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d{4} relay: key \[secret\] and \[secret\]\n$")


if __name__ == "__main__":
    unittest.main()

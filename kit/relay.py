#!/usr/bin/env python3
"""taskhub relay: claims tasks from a hub, runs one command for each, and reports what came of it.

    TASKHUB_URL=https://hub.example TASKHUB_KEY=exk_... relay.py run --queues ops -- ./do-task.sh
    relay.py once -- ./do-task.sh        drain what is ready, then exit (for bots that are woken)
    relay.py ping                        what the hub says about this executor

The command reads the task as JSON on stdin (the hub's claim answer without the claim token) and writes the result,
text, to stdout. Exit 0: completed. Exit 75, or killed by a signal: failed, worth another attempt. Any other exit:
failed, with the end of stderr as the error. The last line on stderr travels to the hub as the attempt's note.

What holds always: a command runs only under a lease that the hub must still hold to be alive, counted from before the
call that was granted it; when the lease, the task or the network is gone, the whole process group goes. Only the hub's
clock counts: all that is taken from it are differences between its own times. No key or claim token reaches a log, an
argument list or the command's environment. The relay keeps nothing on disk and knows nothing of what a task means. It
needs POSIX processes and nothing but Python's own library; it is one file so that one download installs it.

Where the library websocket-client is installed (pip install websocket-client; Debian: python3-websocket), the relay
holds a socket to the hub open, on which it is told at once when there is work; a wake is a hint, and what is claimed is
claimed as ever. Without it, or while the socket is down, it polls.
"""
from __future__ import annotations

import argparse
import base64
import codecs
import collections
import contextlib
import getpass
import hashlib
import http.client
import ipaddress
import json
import os
import random
import re
import selectors
import shlex
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
import uuid

try:
    import websocket  # websocket-client; there is another package with a module of this name.
    websocket.create_connection, websocket.WebSocketBadStatusException, websocket.WebSocketTimeoutException
except (ImportError, AttributeError):
    websocket = None

VERSION = "0.2.0"

EXIT_OK, EXIT_FAILED, EXIT_USAGE = 0, 1, 2  # EXIT_USAGE: a person must change something first (arguments, key).
COMMAND_RETRY_EXIT = 75  # EX_TEMPFAIL of sysexits.h.

CALL_TIMEOUT_SECONDS, HEARTBEAT_TIMEOUT_SECONDS, LAST_CALL_TIMEOUT_SECONDS = 15, 10, 5
CLAIM_WAIT_SECONDS, POLL_SECONDS_MIN = 25, 1.0
LISTEN_POLL_SECONDS = 240.0  # A relay that listens claims this often unasked: a net under lost wakes.
PING_SECONDS = 50.0  # The hub forgets a socket that has not said ping for 150 seconds.
LISTEN_START_SECONDS = 2.0  # How long the first claim waits for the socket.
LISTEN_STABLE_SECONDS = 30.0  # A socket that lived so long ends a row of failures.
BACKOFF_FIRST_SECONDS, BACKOFF_SECONDS_MAX, RETRY_AFTER_SECONDS_MAX = 0.25, 30.0, 3600.0
ONCE_PATIENCE_SECONDS = 60  # How long `once` tries to reach the hub: whoever woke the bot may wake it again.
RESULT_PATIENCE_SECONDS = 900  # How long a result is offered to a hub that takes heartbeats but not the result.
STOP_PATIENCE_SECONDS = 10  # How long reports are still tried once the relay has been told to stop.
GRACE_SECONDS, GRACE_LOST_SECONDS_MAX = 5.0, 1.0  # From SIGTERM to SIGKILL; shorter where another attempt may run.
STOP_NOTICE_SECONDS = 1.0  # How long a command ended by a signal is watched for the same signal reaching us.
OUTPUT_SETTLE_SECONDS = 1.0  # How long output is awaited after the command has ended but left its pipes open.
TICK_SECONDS = 0.1
ANSWER_BYTES_MAX, OUTPUT_BYTES_MAX, RESULT_BYTES_DEFAULT = 8 << 20, 8 << 20, 262_144
TAIL_BYTES, ERROR_CHARS, NOTE_CHARS = 8_192, 4_000, 500
CLOCK_SECONDS_MAX, VERSION_SECONDS_MAX = 60, 20  # A clock this far off is told; how long a program may take to say its version.
PIECE_BYTES = 65_536  # In which files are sent, received and hashed.

# Why a command is stopped, in the words of the log.
STOPPED = {
    "lost": "the hub has taken the lease back, another attempt may be running already",
    "canceled": "the task was canceled",
    "finished": "the hub says that the task has already ended",
    "deadline": "the task's deadline has passed",
    "unreachable": "no heartbeat has reached the hub for a lease, so it will hand the task on",
    "unauthorized": "the hub no longer takes this relay's key",
    "shutdown": "the relay is stopping",
}
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")


def now() -> float:
    """Seconds on a clock that nobody sets and that runs on while the machine sleeps: a lease does, too."""
    return time.clock_gettime(_CLOCK)


class HubError(Exception):
    """No usable answer (`status` 0), or a refusal of the hub's as it stands in its problem+json."""

    def __init__(self, status, code, detail, retryable, retry_after=None):
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail
        self.retryable, self.retry_after = retryable, retry_after


def persist(call, until):
    """Repeats an idempotent call until it is answered or refused for good; the last try comes once `until()` has."""
    failures = 0
    while True:
        last = now() >= until()
        try:
            return call(last)
        except HubError as error:
            if last or not error.retryable:
                raise
            failures += 1
            resume_at = now() + backoff_seconds(failures, error.retry_after, random.random())
        while now() < min(resume_at, until()):
            time.sleep(TICK_SECONDS)


# Decisions: pure functions, no clock, no I/O.

def number(value, default=None):
    """The value if it is a JSON number, else the default."""
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default


def refusal_from(status: int, headers, data: bytes) -> HubError:
    """What an answer outside 2xx means. Proxies answer in formats of their own, so nothing is taken for granted."""
    try:
        problem = json.loads(data)
    except ValueError:
        problem = None
    problem = problem if isinstance(problem, dict) else {}
    retryable = problem.get("retryable")
    if status == 401:
        retryable = False
    elif not isinstance(retryable, bool):
        retryable = status in (408, 425, 429) or status >= 500
    retry_after = number(problem.get("retry_after_seconds"))
    if retry_after is None and re.fullmatch(r"\d{1,6}", headers.get("Retry-After") or ""):
        retry_after = int(headers.get("Retry-After"))
    detail = problem.get("detail") or problem.get("title")
    if not isinstance(detail, str):
        detail = "the answer does not come from a hub (check the address)"
        if 300 <= status < 400:
            detail = f"it redirects to {headers.get('Location')}: give the hub's own address instead"
    return HubError(status, str(problem.get("code") or f"http_{status}"), one_line(detail, 500), retryable, retry_after)


def verdict_of(error: HubError):
    """Why an attempt must stop after this refusal, or None if it may go on and try again."""
    if error.status == 401:
        return "unauthorized"
    if error.code in ("canceled", "already_finished"):
        return "canceled" if error.code == "canceled" else "finished"
    return "lost" if error.status == 409 or error.code in ("task_not_found", "executor_disabled") else None


def backoff_seconds(failures: int, retry_after, chance: float) -> float:
    """The pause after the given number of failures in a row; `chance` is uniform in 0..1."""
    pause = min(BACKOFF_SECONDS_MAX, BACKOFF_FIRST_SECONDS * 2 ** min(failures - 1, 16)) * (0.5 + chance / 2)
    return pause if retry_after is None else pause + max(0.0, min(retry_after, RETRY_AFTER_SECONDS_MAX))


def poll_pause(took: float) -> float:
    """The pause after an empty claim: none if the hub held the call, some if it answered at once."""
    return max(0.0, POLL_SECONDS_MIN - took)


def listen_pause(chance: float) -> float:
    """How long a relay that listens waits for a wake before it claims unasked; `chance` is uniform in 0..1."""
    return LISTEN_POLL_SECONDS * (0.75 + chance / 2)


def is_wake(text) -> bool:
    """Whether a message on the socket says that there is work. What is not understood is no wake."""
    try:
        message = json.loads(text)
    except (ValueError, TypeError):
        return False
    return isinstance(message, dict) and message.get("event") == "wake"


def guard_seconds(lease_seconds: float, grace: float) -> float:
    """How long before the end of a lease its command is stopped, so that it is dead when the lease ends."""
    return min(grace + 1.0, lease_seconds / 4)


def grace_for(reason: str, grace: float, lease_left: float) -> float:
    """How long a command may take to end after SIGTERM."""
    if reason in ("lost", "finished"):
        return min(grace, GRACE_LOST_SECONDS_MAX)
    return max(0.0, min(grace, lease_left * 0.8)) if reason == "unreachable" else grace


def why_stop(clock, lease_end, guard, deadline, verdict, stopping):
    """The reason to stop an attempt now, or None. The hub's word goes before our own reckoning."""
    if verdict:
        return verdict
    if stopping:
        return "shutdown"
    if deadline is not None and clock >= deadline:
        return "deadline"
    return "unreachable" if clock >= lease_end - guard else None


def ending_of(returncode: int) -> str:
    """How a command ended, in words."""
    if returncode >= 0:
        return f"exit code {returncode}"
    return f"killed by {signal.Signals(-returncode).name if -returncode in list(signal.Signals) else -returncode}"


def outcome_of(returncode: int, output: str, complaint: str) -> dict:
    """What the end of a command means to the hub: the part of a result call that tells it."""
    if returncode == 0:
        return {"status": "completed", "result": output}
    said = (complaint or output)[-ERROR_CHARS:].strip() or "the command wrote nothing that says why"
    return {"status": "failed", "retryable": returncode < 0 or returncode == COMMAND_RETRY_EXIT,
            "error": f"{ending_of(returncode)}: {said}"}


def result_text(raw: bytes, dropped: int, limit: int) -> str:
    """A command's output as text of at most `limit` bytes of UTF-8; `dropped` bytes followed that were not kept."""
    text = codecs.getincrementaldecoder("utf-8")("replace").decode(raw, not dropped).replace("\0", "")
    data = text.rstrip("\r\n").encode()
    if len(data) <= limit and not dropped:
        return data.decode()
    notice = f"\n[cut here by the relay: the hub takes {limit} bytes, the command wrote {len(raw) + dropped}]"
    return data[:max(0, limit - len(notice))].decode(errors="ignore") + notice[:limit]


def readable(raw: bytes) -> str:
    """Text for people: no terminal colours, no control characters but the ends of lines."""
    text = _ANSI.sub("", raw.decode(errors="replace").lstrip("\ufffd")).replace("\r\n", "\n").replace("\r", "\n")
    return re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", "", text).strip()


def one_line(text: str, limit: int) -> str:
    """The text on one line of at most `limit` characters, harmless in a log."""
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= limit else text[:limit - 1] + "…"


def child_environment(environ, key: str, claim, url: str) -> dict:
    """The command's environment: ours, without anything that carries the key, and with what names the task."""
    clean = {name: value for name, value in environ.items() if name != "TASKHUB_KEY" and key not in value}
    return {**clean, "TASKHUB_TASK_ID": claim.task_id, "TASKHUB_ATTEMPT": str(claim.attempt), "TASKHUB_URL": url}


def hub_address(url: str, allow_http: bool):
    """The parts of the hub's URL; ValueError says what is wrong with it."""
    parts = urllib.parse.urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise ValueError("the hub's address must look like https://hub.example (no user, query or fragment)")
    try:
        local = parts.hostname == "localhost" or ipaddress.ip_address(parts.hostname).is_loopback
    except ValueError:
        local = False
    if parts.scheme == "http" and not (local or allow_http):
        raise ValueError("plain http shows the key to the network: use https, or --allow-http on a network you trust")
    return parts.scheme, parts.hostname, parts.port, parts.path.rstrip("/")


# Runners: what is run for a task. One table holds all that the relay knows of the models' command lines.

# program: looked up on PATH. arguments: `{work}` is the attempt's folder, `{prompt}` and `{answer}` files in it.
# prompt: how the prompt goes in (stdin, file). answer: how the answer comes out (stdout, file, or json:FIELD of stdout).
# failed: json FIELD=VALUE that means failure in spite of exit code 0. session: where the session's id is
# (json:FIELD, or line:FIELD of the first JSON line that has it); resume: the arguments that go on with `{session}`.
Preset = collections.namedtuple("Preset", "program arguments prompt answer failed session resume advice")
RUNNERS = {
    "claude": Preset(
        "claude", ["-p", "--output-format", "json", "--add-dir", "{work}"], "stdin", "json:result", ("is_error", True),
        "json:session_id", ["-p", "--output-format", "json", "--add-dir", "{work}", "--resume", "{session}"],
        'What it may do unasked stands in its own settings; or add "arguments": ["--permission-mode", "acceptEdits"]'),
    "codex": Preset(
        "codex", ["exec", "--skip-git-repo-check", "--sandbox", "workspace-write", "--json", "--output-last-message", "{answer}",
                  "-"], "stdin", "file", None, "line:thread_id",
        ["exec", "--skip-git-repo-check", "--sandbox", "workspace-write", "--json", "--output-last-message", "{answer}",
         "resume", "{session}", "-"],
        "It may write to its working folder, and has no network unless its own config says so"),
    "grok": Preset(
        "grok", ["--no-auto-update", "--output-format", "json", "--prompt-file", "{prompt}"], "file", "json:text",
        ("stopReason", "Cancelled"), "json:sessionId",
        ["--no-auto-update", "--output-format", "json", "--resume", "{session}", "--prompt-file", "{prompt}"],
        'It stops where it would have to ask; to let it do all unasked, add "arguments": ["--always-approve"]'),
    "gemini": Preset(
        "gemini", ["--output-format", "json", "--include-directories", "{work}"], "stdin", "json:response", None, None, None,
        'What it may do unasked stands in its own settings; or add "arguments": ["--approval-mode", "auto_edit"]'),
    "echo": Preset("cat", [], "stdin", "stdout", None, None, None, "It answers with its prompt: for tests"),
}
AUTOMATIC = ("claude", "codex", "grok", "gemini")  # In this order one is taken if none is named.


class Runner:
    """A program with its arguments, and the name of its preset; None for a command that reads the task as JSON."""

    def __init__(self, words: list, preset=None, more=()):
        self.words, self.preset, self.more = words, preset, list(more)


def runner_from(setup, command):
    """What is to be run: the command after `--`, else the option, else what relay.json says. ValueError if it is not there."""
    config, preset = setup.config, getattr(setup.options, "runner", None)
    if not command and not preset:
        command, preset = config.get("command"), config.get("runner")
    if command:
        runner = Runner(list(command))
    elif not preset:
        return None
    elif preset not in RUNNERS:
        raise ValueError(f"there is no runner {preset!r}; there are {', '.join(RUNNERS)}, or give a command of your own")
    else:
        runner = Runner([RUNNERS[preset].program], preset, config.get("arguments") or [])
    if shutil.which(runner.words[0], path=setup.environ.get("PATH")) is None:
        raise ValueError(f"cannot find or execute the command {runner.words[0]!r}; PATH is {setup.environ.get('PATH')}")
    return runner


class Claim:
    """What the hub handed over: the task, the token that proves it, and the lease, renewed by heartbeats."""

    def __init__(self, answer: dict, asked_at: float, received_at: float):
        task = answer["task"]
        self.task_id, self.attempt, self.token = str(task["id"]), int(answer["attempt"]), str(answer["claim_token"])
        self.title, self.queue = one_line(str(task.get("title", "")), 80), task.get("queue")
        self.payload = json.dumps({k: v for k, v in answer.items() if k != "claim_token"}, ensure_ascii=False)
        self.proof = {"task_id": self.task_id, "claim_token": self.token}
        self._deadline_at = number(task.get("deadline_at"))
        self.every = number(answer.get("heartbeat_every_seconds"), 0)
        self.seconds = float(number(answer.get("lease_seconds"), 3 * self.every))
        if self.seconds <= 0 or self.every <= 0:
            raise ValueError("no lease_seconds or heartbeat_every_seconds")
        self.deadline = None
        self.renew(answer, asked_at, received_at)
        if received_at > self.beat_due:
            # An answer was lost, or slow: the lease may be older than we can know. Heartbeat first, then run.
            self.confirmed, self.lease_end, self.beat_due = False, received_at + self.seconds, received_at

    def renew(self, answer: dict, asked_at: float, received_at: float):
        """Takes an answer that renewed the lease. It began after we asked, so that is where our count starts."""
        every = number(answer.get("heartbeat_every_seconds"), 0)
        if 0 < every < self.every:  # The owner has shortened the leases meanwhile.
            self.seconds, self.every = self.seconds * every / self.every, every
        self.beat_due, self.lease_end = asked_at + min(self.every, self.seconds / 3), asked_at + self.seconds
        expires_at = number(answer.get("lease_expires_at"))
        if self._deadline_at is not None and expires_at is not None:
            # Both are the hub's times, so the hub's own "now" follows from the lease, whatever our clock says.
            self.deadline = received_at + (self._deadline_at - expires_at) / 1000 + self.seconds
        self.confirmed = True


class Output:
    """What a command has written: the head of stdout, the end of stderr and its last line. Bounded, whatever comes."""

    def __init__(self, stdout_bytes_max: int):
        self.head, self.dropped, self.tail, self.line = bytearray(), 0, b"", ""
        self._max, self._partial = min(stdout_bytes_max, OUTPUT_BYTES_MAX) + 4, b""

    def feed_stdout(self, data: bytes):
        kept = data[:self._max - len(self.head)]
        self.head += kept
        self.dropped += len(data) - len(kept)

    def feed_stderr(self, data: bytes):
        self.tail = (self.tail + data)[-TAIL_BYTES:]
        *lines, partial = re.split(rb"[\r\n]", self._partial + data)
        self._partial = partial[-TAIL_BYTES:]
        said = next((line for line in map(readable, reversed(lines)) if line), None)
        self.line = one_line(said, NOTE_CHARS) if said else self.line


class Log:
    """One line a step, on stderr. It knows the secrets, so that none can slip into a line."""

    def __init__(self):
        self.secrets, self._lock = set(), threading.Lock()

    def __call__(self, text: str, subject: str = "relay"):
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S%z')} {subject}: {one_line(text, 1000)}"
        with self._lock:
            for secret in list(self.secrets):
                line = line.replace(secret, "[secret]")
            try:
                print(line, file=sys.stderr, flush=True)
            except (OSError, ValueError):
                pass  # Nobody reads the log any more; the task matters more.


class Hub:
    """The executor API over HTTP: one call, one connection, always with a time limit; no retries, no redirects."""

    def __init__(self, url: str, key, log, allow_http: bool = False):
        self._scheme, self._host, self._port, self._path = hub_address(url, allow_http)
        self.url, self.key, self._log = url.strip().rstrip("/"), key, log
        self._tls = ssl.create_default_context() if self._scheme == "https" else None
        self._trouble, self._trouble_lock = None, threading.Lock()
        self._abortable, self._aborting = None, False

    def call(self, path: str, body: dict, timeout: float, abortable: bool = False):
        """The answer's JSON object, or None for 204. Raises HubError."""
        data = json.dumps(body, ensure_ascii=False).encode(errors="replace")
        return self._exchange("POST", path, timeout, data, {"Content-Type": "application/json"}, abortable)

    def fetch(self, path: str, timeout: float, take=None):
        """GET without the key: the answer's bytes, or None if `take` was given them piece by piece. Raises HubError."""
        return self._exchange("GET", path, timeout, None, {"Authorization": None, "Accept": "*/*"}, False, take or bytes)

    def _exchange(self, method, path, timeout, body, headers, abortable=False, take=None):
        """One call, one connection. `take` receives the raw answer: `bytes` for all at once, or a function for pieces."""
        connection = self._connect(timeout)
        if abortable:
            self._abortable = connection
        error = answer = None
        try:
            connection.connect()
            if abortable and self._aborting:
                raise OSError("the call was abandoned")
            try:
                connection.request(method, self._path + path, body, self._headers(headers))
            except (BrokenPipeError, ConnectionResetError):
                pass  # A hub that refuses a large body may close before it has read it; its answer says why.
            response = connection.getresponse()
            if not 200 <= response.status < 300:
                error = refusal_from(response.status, response.headers, response.read(ANSWER_BYTES_MAX))
            elif take is None:
                answer = self._object(response)
            elif take is bytes:
                answer = response.read(ANSWER_BYTES_MAX)
            else:
                for piece in iter(lambda: response.read(PIECE_BYTES), b""):
                    take(piece)
        except (OSError, http.client.HTTPException, ValueError) as cause:
            error = HubError(0, "no_answer", one_line(f"{type(cause).__name__}: {cause}", 200), True)
        finally:
            connection.close()
        if not (abortable and self._aborting):
            self._tell_trouble(error)
        if error:
            raise error
        return answer

    def _headers(self, more: dict) -> dict:
        usual = {"Authorization": f"Bearer {self.key}" if self.key else None, "Accept": "application/json",
                 "User-Agent": f"taskhub-relay/{VERSION}", "Connection": "close"}
        return {name: value for name, value in {**usual, **more}.items() if value is not None}

    @staticmethod
    def _object(response):
        data = response.read(ANSWER_BYTES_MAX)
        if response.status == 204:
            return None
        answer = json.loads(data)
        if not isinstance(answer, dict):
            raise ValueError("the answer is not a JSON object")
        return answer

    @contextlib.contextmanager
    def open_socket(self, path: str):
        """A WebSocket at this path, over a connection that is made as for every call, and without redirects."""
        connection = self._connect(CALL_TIMEOUT_SECONDS)
        try:
            connection.connect()  # May be a tunnel through a proxy.
            scheme = "wss" if self._scheme == "https" else "ws"
            host = f"[{self._host}]" if ":" in self._host else self._host
            port = f":{self._port}" if self._port else ""
            headers = [f"Authorization: Bearer {self.key}", f"User-Agent: taskhub-relay/{VERSION}"]
            opened = websocket.create_connection(
                f"{scheme}://{host}{port}{self._path}{path}", socket=connection.sock, timeout=CALL_TIMEOUT_SECONDS,
                header=headers, suppress_origin=True, redirect_limit=0)
            yield opened
        finally:
            connection.close()

    def look(self) -> str:
        """Connects and says how, or raises what stands in the way."""
        connection = self._connect(CALL_TIMEOUT_SECONDS)
        try:
            connection.connect()
            peer = connection.sock.getpeername()[:2]
            via = f" (through a proxy for {self._host})" if connection._tunnel_host else ""
            kind = connection.sock.version() if self._tls else "plain http"
            return f"connected to {peer[0]} port {peer[1]}{via}, {kind}"
        finally:
            connection.close()

    def abort(self):
        """Ends abortable calls, now and from now on: they fail as if the answer had been lost."""
        self._aborting = True
        sock = getattr(self._abortable, "sock", None)
        if sock is not None:
            try:
                # Closing it resets it: a hub may take a mere end of our data for a client that still listens, and hand
                # that one the next task.
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                pass

    def _connect(self, timeout: float):
        if self._scheme == "http":
            return http.client.HTTPConnection(self._host, self._port, timeout=timeout, blocksize=PIECE_BYTES)
        proxy = urllib.request.getproxies().get("https")
        if not proxy or urllib.request.proxy_bypass(self._host):
            return http.client.HTTPSConnection(self._host, self._port, timeout=timeout, context=self._tls,
                                               blocksize=PIECE_BYTES)
        via = urllib.parse.urlsplit(proxy if "//" in proxy else f"//{proxy}")
        connection = http.client.HTTPSConnection(via.hostname, via.port or 8080, timeout=timeout, context=self._tls,
                                                 blocksize=PIECE_BYTES)
        login = urllib.parse.unquote(f"{via.username}:{via.password or ''}") if via.username else None
        credentials = {"Proxy-Authorization": "Basic " + base64.b64encode(login.encode()).decode()} if login else {}
        connection.set_tunnel(self._host, self._port or 443, credentials)
        return connection

    def _tell_trouble(self, error):
        """Logs when the connection turns bad, changes its complaint, or is good again; never once per try."""
        trouble = None
        if error and error.retryable:
            trouble = f"{error.status} {error.code} ({error.detail})" if error.status else f"no answer ({error.detail})"
        with self._trouble_lock:
            before, self._trouble = self._trouble, trouble
        if trouble and trouble != before:
            self._log(f"the hub at {self.url} gives {trouble}; trying again until it does better")
        elif before and not trouble:
            self._log("the hub answers again")


class Listener(threading.Thread):
    """Holds a socket to the hub open, and says when to claim: at each wake, each connect, and each loss of the socket."""

    def __init__(self, hub: Hub, log: Log, refused_key):
        super().__init__(daemon=True)
        self._hub, self._log, self._refused_key = hub, log, refused_key
        self._done, self._socket, self._trouble = threading.Event(), None, None
        self.due, self.listens = threading.Event(), False

    def run(self):
        failures = 0
        while not self._done.is_set():
            began = now()
            try:
                why = self._listen()
            except websocket.WebSocketBadStatusException as error:
                if error.status_code == 401:
                    self._refused_key()
                    return
                if error.status_code in (404, 405):
                    self._log("this hub offers no socket to listen on; polling")
                    return
                why = f"the hub answers {error.status_code}"
            except (OSError, http.client.HTTPException, ValueError, websocket.WebSocketException) as error:
                why = f"{type(error).__name__}: {error}"
            self._lost(why)
            failures = 1 if now() - began > LISTEN_STABLE_SECONDS else failures + 1
            self._done.wait(backoff_seconds(failures, None, random.random()))

    def _lost(self, why: str):
        self._socket, was_there, self.listens = None, self.listens, False
        self.due.set()  # Nobody wakes us now: poll.
        if not self._done.is_set() and (was_there or why != self._trouble):
            self._log(f"cannot listen ({one_line(why, 200)}); polling until that is mended")
            self._trouble = why

    def _listen(self) -> str:
        """Listens until the socket is closed; returns why it was."""
        with self._hub.open_socket("/executor/listen") as self._socket:
            self.listens, self._trouble = True, None
            self.due.set()  # A wake while there was no socket is lost; what it was for is not.
            self._log("listening: the hub tells this relay when there is work")
            heard_at = pinged_at = now()
            while not self._done.is_set():
                if now() - pinged_at >= PING_SECONDS:
                    if pinged_at - heard_at >= PING_SECONDS:
                        return "the hub does not answer pings"
                    self._socket.send("ping")
                    pinged_at = now()
                self._socket.settimeout(max(0.1, pinged_at + PING_SECONDS - now()))
                try:
                    kind, data = self._socket.recv_data()
                except websocket.WebSocketTimeoutException:
                    continue
                heard_at = now()
                if kind == websocket.ABNF.OPCODE_CLOSE:
                    code = int.from_bytes(data[:2], "big") if len(data) >= 2 else 1005
                    return f"closed by the hub, {code} {data[2:].decode(errors='replace')}"
                if is_wake(data):
                    self.due.set()
        return "stopped"

    def stop(self):
        self._done.set()
        self.due.set()
        sock = getattr(self._socket, "sock", None)
        if sock is not None:
            try:
                socket.socket.shutdown(sock, socket.SHUT_RDWR)
            except OSError:
                pass


class Heartbeat(threading.Thread):
    """Keeps one claim alive until told to stop, and learns from the answers whether it still is (`verdict`)."""

    def __init__(self, hub: Hub, claim: Claim, output: Output, log: Log):
        super().__init__(daemon=True)
        self._hub, self._claim, self._output, self._log = hub, claim, output, log
        self._done, self._note_sent, self._notes_allowed = threading.Event(), "", True
        self.verdict = None

    def stop(self):
        self._done.set()

    def run(self):
        failures, due = 0, self._claim.beat_due
        while self.verdict is None:
            # Short waits: a machine that slept through the due time should notice when it wakes.
            while now() < due:
                if self._done.wait(min(1.0, max(0.01, due - now()))):
                    return
            if self._done.is_set():
                return
            try:
                self._beat()
                failures, due = 0, self._claim.beat_due
            except HubError as error:
                self.verdict = verdict_of(error)
                if error.status and not error.retryable and not self.verdict:
                    self._notes_allowed = False  # The note is the only part of a heartbeat that could be wrong.
                    self._log(f"the hub refused a heartbeat ({error.code}): {error.detail}")
                failures += 1
                pause = backoff_seconds(failures, error.retry_after, random.random())
                due = now() + min(pause, self._claim.seconds / 3)

    def _beat(self):
        body, note, asked_at = dict(self._claim.proof), self._output.line, now()
        if self._notes_allowed and note and note != self._note_sent:
            body["note"] = note
        timeout = min(HEARTBEAT_TIMEOUT_SECONDS, max(1.0, self._claim.seconds / 3))
        answer = self._hub.call("/executor/heartbeat", body, timeout) or {}
        self._note_sent = body.get("note", self._note_sent)
        self._claim.renew(answer, asked_at, now())
        if answer.get("cancel_requested") is True:
            self.verdict = "canceled"


class Attempt(threading.Thread):
    """One claim from start to end: runs the command, stops it when it must not go on, reports the outcome."""

    def __init__(self, relay: Relay, claim: Claim):
        super().__init__(daemon=True)
        self._relay, self._hub, self._claim = relay, relay.hub, claim
        self._result_bytes_max = int(number(relay.limits.get("result_bytes_max"), RESULT_BYTES_DEFAULT))
        self._output = Output(self._result_bytes_max)
        self._heartbeat = Heartbeat(relay.hub, claim, self._output, self._log)
        self._guard = guard_seconds(claim.seconds, relay.grace)
        self._process, self._group = None, None

    def _log(self, text: str):
        self._relay.log(text, f"{self._claim.task_id}#{self._claim.attempt}")

    def run(self):
        self._relay.log.secrets.add(self._claim.token)
        self._log(f'claimed "{self._claim.title}"' + (f" from queue {self._claim.queue}" if self._claim.queue else ""))
        self._heartbeat.start()
        try:
            self._run()
        except Exception as error:  # A fault of this machine or of ours must not leave the task hanging.
            self._log(f"could not run the command: {type(error).__name__}: {error}")
            self.signal_group(signal.SIGKILL)
            self._report({"status": "failed", "retryable": True, "error": f"The relay could not run it: {error}"})
        finally:
            self._heartbeat.stop()
            self._relay.log.secrets.discard(self._claim.token)
            self._relay.ended(self)

    def _run(self):
        reason = self._why_stop()
        while not reason and not self._claim.confirmed:
            time.sleep(TICK_SECONDS)
            reason = self._why_stop()
        started_at = now()
        if not reason:
            with tempfile.TemporaryFile() as stdin:
                stdin.write(self._claim.payload.encode(errors="replace"))
                stdin.seek(0)
                env = child_environment(os.environ, self._hub.key, self._claim, self._hub.url)
                self._process = subprocess.Popen(self._relay.command, stdin=stdin, stdout=subprocess.PIPE,
                                                 stderr=subprocess.PIPE, bufsize=0, start_new_session=True, env=env)
            self._group = self._process.pid
            with self._process.stdout, self._process.stderr:
                reason = self._supervise()
            self._group = None
        code, output = self._process.returncode if self._process else 0, self._output
        if reason is None and (code < 0 or code in (130, 143)) and self._relay.stopping.wait(STOP_NOTICE_SECONDS):
            reason = "shutdown"  # A service supervisor signals us and the command at the same moment.
        if reason is None:
            self._log(f"the command ended after {now() - started_at:.1f} s: {ending_of(code)}, "
                      f"{len(output.head) + output.dropped} bytes of output")
            text = result_text(bytes(output.head), output.dropped, self._result_bytes_max)
            self._report(outcome_of(code, text, readable(output.tail)))
            return
        self._log(f"stopped: {STOPPED[reason]}")
        self._heartbeat.stop()
        if reason == "unauthorized":
            self._relay.refused_key()
        elif reason == "shutdown" and self._relay.exit_code != EXIT_USAGE:
            self._release()

    def _why_stop(self):
        claim, stopping = self._claim, self._relay.stopping.is_set()
        return why_stop(now(), claim.lease_end, self._guard, claim.deadline, self._heartbeat.verdict, stopping)

    def _supervise(self):
        """Reads the command's output until its end; returns why it was stopped, or None if it ended by itself."""
        process, reason, kill_at, ended_at = self._process, None, None, None
        with selectors.DefaultSelector() as pipes:
            for pipe, feed in ((process.stdout, self._output.feed_stdout), (process.stderr, self._output.feed_stderr)):
                os.set_blocking(pipe.fileno(), False)
                pipes.register(pipe, selectors.EVENT_READ, feed)
            while True:
                self._pump(pipes)
                if process.poll() is not None:
                    ended_at = ended_at or now()
                    if reason is None and (not pipes.get_map() or now() > ended_at + OUTPUT_SETTLE_SECONDS):
                        break
                    if reason is not None and not self.signal_group(0):
                        break
                if reason is None and ended_at is None:
                    reason = self._why_stop()
                    if reason:
                        kill_at = now() + grace_for(reason, self._relay.grace, self._claim.lease_end - now())
                        self.signal_group(signal.SIGTERM)
                elif kill_at is not None and now() >= kill_at:
                    break
        self.signal_group(signal.SIGKILL)  # A command that will not go, or children that one left behind.
        process.wait(STOP_PATIENCE_SECONDS)
        return reason

    @staticmethod
    def _pump(pipes):
        if not pipes.get_map():
            time.sleep(TICK_SECONDS / 4)
            return
        for key, _ in pipes.select(TICK_SECONDS):
            data = os.read(key.fd, 65_536)
            if data:
                key.data(data)
            else:
                pipes.unregister(key.fileobj)

    def signal_group(self, number_: int) -> bool:
        """Signals the command's whole process group; False if nothing is left of it."""
        try:
            if self._group:
                os.killpg(self._group, number_)
            return self._group is not None
        except (ProcessLookupError, PermissionError):  # macOS says EPERM where only zombies are left.
            return False

    def _deliver(self, path: str, body: dict, patience: float):
        """Sends a call that ends the attempt, for as long as the lease, the patience and a stopping relay allow."""
        began, relay, sent = now(), self._relay, {**self._claim.proof, **body}

        def call(last):
            hurry = last or relay.stopping.is_set()
            return self._hub.call(path, sent, LAST_CALL_TIMEOUT_SECONDS if hurry else CALL_TIMEOUT_SECONDS) or {}
        return persist(call, lambda: min(self._claim.lease_end, began + patience, relay.stop_by))

    def _report(self, outcome: dict):
        """Sends the result. The heartbeat goes on meanwhile, so the lease outlives a hub that is briefly unwell."""
        try:
            try:
                answer = self._deliver("/executor/result", outcome, RESULT_PATIENCE_SECONDS)
            except HubError as error:
                if error.retryable or error.status in (401, 404, 409):
                    raise
                self._log(f"the hub refused the result ({error.code}): {error.detail}; reporting that instead")
                why = f"The hub refused the result: {error.detail}"
                outcome = {"status": "failed", "retryable": False, "error": why}
                answer = self._deliver("/executor/result", outcome, RESULT_PATIENCE_SECONDS)
            again = ", to be tried again" if answer.get("retry_at") else ""
            self._log(f"reported as {outcome['status']}; the task is {one_line(str(answer.get('state')), 40)}{again}")
        except HubError as error:
            self._log(f"the result did not count ({error.code}): {error.detail}")
            if error.status == 401:
                self._relay.refused_key()

    def _release(self):
        try:
            self._deliver("/executor/release", {"note": "The relay was stopped before the end."}, float("inf"))
            self._log("released: the hub can give the task to another executor at once")
        except HubError as error:
            self._log(f"could not release the task ({error.code}): {error.detail}")


class Relay:
    """The main loop: claims one task at a time while a slot is free, an Attempt for each; an orderly end."""

    def __init__(self, hub: Hub, log: Log, command, queues, concurrency: int, grace: float, drain: bool,
                 listen: bool = False):
        self.hub, self.log, self.command, self.grace = hub, log, command, grace
        self._queues, self._concurrency, self._drain = queues, concurrency, drain
        self.stopping, self.stop_by, self.exit_code, self.limits = threading.Event(), float("inf"), EXIT_OK, {}
        self._attempts, self._ended, self._changed = set(), 0, threading.Condition()
        self._signals, self._claimed_before = 0, False
        self._listener = Listener(hub, log, self.refused_key) if listen and websocket and not drain else None
        self._how = "listening" if self._listener else "polling" if websocket or drain or not listen else (
            "polling (with the Python library websocket-client it would listen, and be told of work at once)")

    def run(self) -> int:
        """Runs until drained, stopped by a signal, or refused for good; returns the exit code."""
        for number_ in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number_, self._on_signal)
        loop = threading.Thread(target=self._loop, daemon=True)
        loop.start()
        while loop.is_alive() and now() < self.stop_by + CALL_TIMEOUT_SECONDS:
            loop.join(TICK_SECONDS)
            if self._signals and not self.stopping.is_set():
                self.stop("told to stop: ending commands and giving their tasks back (once more to stop at once)")
        self._kill_all()
        self.log("stopped")
        return self.exit_code

    def _on_signal(self, number_: int, _frame):
        """Only counts, since the main thread may hold any lock here. The second signal takes no lock either."""
        self._signals += 1
        if self._signals > 1:
            self._kill_all()
            os._exit(128 + number_)

    def _kill_all(self):
        for attempt in list(self._attempts):
            attempt.signal_group(signal.SIGKILL)

    def stop(self, why: str, exit_code: int = EXIT_OK):
        """Stops claiming and every command; the first reason given counts."""
        with self._changed:
            if self.stopping.is_set():
                return
            self.exit_code, self.stop_by = exit_code, now() + self.grace + STOP_PATIENCE_SECONDS
            self.stopping.set()
            self._changed.notify_all()
        self.log(why)
        self.hub.abort()
        if self._listener:
            self._listener.stop()

    def refused_key(self):
        self.stop("the hub does not accept this key (401): it was revoked, or belongs to another hub. "
                  "Ask the owner for a new one, put it in TASKHUB_KEY or the key file, and start again", EXIT_USAGE)

    def ended(self, attempt: Attempt):
        """An attempt is over: its slot is free."""
        with self._changed:
            self._attempts.discard(attempt)
            self._ended += 1
            self._changed.notify_all()
        if self._listener:
            self._listener.due.set()  # The hub may have kept a task back because this executor held too many.

    def _loop(self):
        try:
            hello = self._ask("/executor/ping", {"version": f"relay/{VERSION}"}) or {}
            self.limits = hello.get("limits") if isinstance(hello.get("limits"), dict) else {}
            self.log(f"version {VERSION}, executor {hello.get('executor')} at {self.hub.url}, waiting for tasks, {self._how}")
            if self._listener:
                self._listener.start()
                self._listener.due.wait(LISTEN_START_SECONDS)  # So that the first claim need not be held by the hub.
            while not self.stopping.is_set() and self._step():
                pass
        except HubError as error:
            self._refused(error)
        except Exception as error:
            self.stop(f"a fault in the relay: {type(error).__name__}: {error}", EXIT_FAILED)
        with self._changed:
            self._changed.wait_for(lambda: not self._attempts)

    def _step(self) -> bool:
        """Waits for a slot, claims, starts an attempt. False when there is nothing left to do."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._attempts) < self._concurrency or self.stopping.is_set())
            ended = self._ended
        if self.stopping.is_set():
            return False
        try:
            claim = self._claim()
        except HubError as error:
            if error.retryable or error.status == 401 or self._drain or not self._claimed_before:
                raise
            # It worked before, so it is the hub that changed: a service does not die of somebody's bad deployment.
            self.log(f"the hub refused a claim ({error.code}): {error.detail}; asking again every half a minute")
            self.stopping.wait(BACKOFF_SECONDS_MAX)
            return True
        self._claimed_before = True
        if claim:
            attempt = Attempt(self, claim)
            with self._changed:
                self._attempts.add(attempt)
            attempt.start()
        elif self._drain:
            with self._changed:  # A task that ends may make another ready; with none running, the queue is drained.
                self._changed.wait_for(lambda: not self._attempts or self._ended != ended or self.stopping.is_set())
                return self._ended != ended
        return True

    def _claim(self):
        """One logical claim under one request id, however often it must be sent; None if nothing is ready."""
        wait = int(min(CLAIM_WAIT_SECONDS, number(self.limits.get("claim_wait_seconds_max"), CLAIM_WAIT_SECONDS)))
        queues = {"queues": self._queues} if self._queues else {}
        listener = self._listener
        while True:
            listens = listener is not None and listener.listens
            body = {"wait_seconds": 0 if self._drain or listens else wait, **queues}
            asked_at = now()
            if listens:
                listener.due.clear()  # What happens from here on is not yet known to the claim.
            try:
                answer = self._ask("/executor/claim", {**body, "request_id": uuid.uuid4().hex})
            except HubError as error:
                if error.code != "claim_ended" or self.stopping.wait(POLL_SECONDS_MIN):
                    raise
                continue
            if answer is None:
                if listens and not self.stopping.is_set():
                    listener.due.wait(listen_pause(random.random()))
                elif not self._drain and not listens:
                    self.stopping.wait(poll_pause(now() - asked_at))
                return None
            try:
                return Claim(answer, asked_at, now())
            except (KeyError, TypeError, ValueError) as error:
                raise HubError(200, "unexpected_answer", "the hub's claim is not one this relay understands "
                               f"({type(error).__name__}: {error}); update relay.py", False) from error

    def _ask(self, path: str, body: dict):
        """Calls until answered or refused for good. When told to stop it asks once more, without waiting: an answer
        that was lost may have been a claim, and the same request id brings it back so that it can be released."""
        give_up_at = now() + ONCE_PATIENCE_SECONDS if self._drain else float("inf")

        def call(last):
            sent = {**body, "wait_seconds": 0} if last and "wait_seconds" in body else body
            timeout = LAST_CALL_TIMEOUT_SECONDS if last else CALL_TIMEOUT_SECONDS + body.get("wait_seconds", 0)
            return self.hub.call(path, sent, timeout, abortable=not last)
        return persist(call, lambda: 0 if self.stopping.is_set() else give_up_at)

    def _refused(self, error: HubError):
        if error.status == 401:
            self.refused_key()
        elif not self.stopping.is_set():  # What runs may still end well: only the claiming is over.
            self.exit_code = EXIT_FAILED
            self.log(f"giving up: {error.code}: {error.detail}")


# Configuration: one file of this user's, which holds the key.

def places(environ):
    """Where this user's relay.json and the relay's state folder are, by the XDG variables."""
    def base(variable, usual):
        path = environ.get(variable, "")
        return path if os.path.isabs(path) else os.path.join(os.path.expanduser("~"), usual)
    return (os.path.join(base("XDG_CONFIG_HOME", ".config"), "taskhub", "relay.json"),
            os.path.join(base("XDG_STATE_HOME", os.path.join(".local", "state")), "taskhub"))


def write_private(path: str, text: str):
    """Replaces a file whole or not at all, readable by this user only; makes its folder likewise if there is none."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder, prefix=".relay-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_config(path: str) -> dict:
    """What relay.json says; nothing if there is none. ValueError says what to mend in it."""
    try:
        with open(path, encoding="utf-8") as file:
            config = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ValueError(f"{path} is not JSON ({error}): mend it, or enroll again with a new code") from error
    if not isinstance(config, dict):
        raise ValueError(f"{path} must hold one JSON object: mend it, or enroll again with a new code")
    for name, kind, shape in CONFIG_FIELDS:
        value = config.get(name)
        if value is not None and not (isinstance(value, kind) and not isinstance(value, bool) and (
                kind is not list or all(isinstance(item, str) and item for item in value))):
            raise ValueError(f"{path}: {name} must be {shape} or null")
    return config


CONFIG_FIELDS = (
    ("url", str, "the hub's address, a text"), ("executor", str, "this executor's name, a text"),
    ("key", str, "the executor's key, a text"), ("runner", str, f"one of {', '.join(RUNNERS)}"),
    ("command", list, "a list of texts, the program first"), ("arguments", list, "a list of texts"),
    ("directory", str, "a folder, a text"), ("queues", list, "a list of names"), ("concurrency", int, "a whole number"),
    ("wake_secret", str, "the secret of hub's wakes (whsec_...), a text"), ("wake_bearer", str, "a text"),
    ("path", str, "what PATH is to have besides, a text"))


class Setup:
    """What holds for this call: the options, before the environment, before relay.json."""

    def __init__(self, options, environ, log: Log):
        usual_config, self.state = places(environ)
        self.path = options.config or environ.get("TASKHUB_CONFIG") or usual_config
        self.options, self.environ, self._log = options, environ, log
        self.config = read_config(self.path)
        self.url = options.hub or environ.get("TASKHUB_URL") or self.config.get("url")
        log.secrets.update(self.config[name] for name in ("key", "wake_secret", "wake_bearer") if self.config.get(name))
        if self.config.get("path"):  # A service is started with less than its user's PATH.
            known = environ.get("PATH", "").split(os.pathsep)
            more = [place for place in self.config["path"].split(os.pathsep) if place not in known]
            environ["PATH"] = os.pathsep.join([*known, *more])

    def hub(self, log) -> Hub:
        """The hub to call; ValueError says what is missing."""
        if not self.url:
            raise ValueError("which hub? Enroll with a code of the owner's (relay.py enroll --url URL CODE), give --hub URL "
                             "or set TASKHUB_URL")
        return Hub(self.url, self._key(), log, self.options.allow_http)

    def _key(self) -> str:
        key_file, key = self.options.key_file, self.environ.get("TASKHUB_KEY", "").strip()
        if key_file:
            with open(key_file, encoding="utf-8") as file:
                key = file.read().strip()
                self._warn_of_readers(file, key_file)
        elif not key and self.config.get("key"):
            if self.config.get("url") and self.url.strip().rstrip("/") != self.config["url"].strip().rstrip("/"):
                raise ValueError(f"the key in {self.path} belongs to {self.config['url']} and is not sent to {self.url}: "
                                 "leave --hub and TASKHUB_URL out, or give that hub's key in TASKHUB_KEY")
            key = self.config["key"]
            with open(self.path, encoding="utf-8") as file:
                self._warn_of_readers(file, self.path)
        if not re.fullmatch(r"exk_[!-~]+", key):
            raise ValueError("no usable executor key (exk_...): enroll with a code of the owner's (relay.py enroll --url URL "
                             "CODE), set TASKHUB_KEY, or name the key's file with --key-file")
        self._log.secrets.add(key)
        return key

    def _warn_of_readers(self, file, path):
        if os.fstat(file.fileno()).st_mode & 0o077:
            self._log(f"others on this machine can read the key: chmod 600 {path}")


def enroll(setup: Setup, log: Log) -> int:
    """Trades a one-time code for a key and writes relay.json. Safe to repeat: the nonce stays until there is an answer."""
    options, pending = setup.options, setup.path + ".enroll"
    if not re.fullmatch(r"enr_[!-~]+", options.code.strip()):
        raise ValueError("an enrolment code begins with enr_: copy the whole code that the owner was given")
    if not setup.url:
        raise ValueError("which hub? Give its address: relay.py enroll --url https://hub.example CODE")
    code = options.code.strip()
    log.secrets.add(code)
    fingerprint = hashlib.sha256(code.encode()).hexdigest()
    begun = read_config(pending)
    if begun.get("code_sha256") != fingerprint:
        begun = {"code_sha256": fingerprint, "nonce": uuid.uuid4().hex}
        write_private(pending, json.dumps(begun) + "\n")
    hub, give_up_at = Hub(setup.url, None, log, options.allow_http), now() + ONCE_PATIENCE_SECONDS
    answer = persist(lambda _: hub.call("/executor/enroll", {"code": code, "nonce": begun["nonce"]}, CALL_TIMEOUT_SECONDS),
                     lambda: give_up_at) or {}
    key, executor = answer.get("key"), answer.get("executor")
    if not isinstance(key, str) or not isinstance(executor, str):
        raise ValueError("the hub's answer holds no key: it is older or newer than this relay; download relay.py from it again")
    log.secrets.add(key)
    config = {**setup.config, "url": hub.url, "executor": executor, "key": key, "path": setup.environ.get("PATH", ""),
              **enrolled_work(options, setup.config)}
    write_private(setup.path, json.dumps(config, indent=2, ensure_ascii=False) + "\n")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(pending)
    does = config["runner"] or (shlex.join(config["command"]) if config["command"] else None)
    print(f"enrolled as executor {executor} at {hub.url}; the key is in {setup.path}")
    print(f"runs      {does} for each task" if does else
          "runs      nothing yet: none of " + ", ".join(AUTOMATIC) + " is on PATH. Install one, or put your own program into "
          f'{setup.path}: "command": ["program", "argument"]')
    print("next      relay.py doctor, then relay.py run")
    return EXIT_OK


def enrolled_work(options, config: dict) -> dict:
    """What relay.json is to say of the work: the options, else what it said before, else a runner that is there."""
    work = {name: config.get(name) for name in ("runner", "command", "queues")}
    if options.command:
        work.update(runner=None, command=["/bin/sh", "-c", options.command])
    elif options.runner:
        work.update(runner=options.runner, command=None)
    elif not work["runner"] and not work["command"]:
        work["runner"] = next((name for name in AUTOMATIC if shutil.which(RUNNERS[name].program)), None)
    if options.queues:
        work["queues"] = names_in(options.queues)
    return {**work, "concurrency": options.concurrency or config.get("concurrency") or 1}


def names_in(text: str) -> list:
    """A list written with commas."""
    return [name.strip() for name in text.split(",") if name.strip()]


# Looking after the installation.

Check = collections.namedtuple("Check", "name state says todo")  # state: ok, note (works, but look at it), wrong.


def doctor(setup, trouble, environ, as_json: bool) -> int:
    """Looks at everything that a relay needs, and says what to do about each. `trouble` is why there is no setup."""
    checks = [check_python(), check_config(setup, trouble)]
    if setup:
        checks += [*check_state(setup), *check_hub(setup), check_runner(setup), check_service(environ), check_library()]
    if as_json:
        print(json.dumps([check._asdict() for check in checks], indent=2))
    else:
        for check in checks:
            print(f"{check.state:5} {check.name:11} {one_line(check.says, 300)}")
            if check.todo:
                print(f"{'':17} -> {one_line(check.todo, 400)}")
    wrong = sum(check.state == "wrong" for check in checks)
    if not as_json:
        print(f"{wrong} of {len(checks)} things are wrong" if wrong else "all is well")
    return EXIT_FAILED if wrong else EXIT_OK


def check_python() -> Check:
    version = ".".join(map(str, sys.version_info[:3]))
    good = sys.version_info >= (3, 8)
    return Check("python", "ok" if good else "wrong", f"{version} at {sys.executable}",
                 None if good else "install Python 3.8 or later")


def check_config(setup, trouble) -> Check:
    if setup is None:
        return Check("config", "wrong", trouble, "mend or remove that file; relay.py enroll writes it anew")
    if not setup.config:
        if setup.environ.get("TASKHUB_KEY") or setup.options.key_file:
            return Check("config", "ok", f"no {setup.path}; the key comes from elsewhere", None)
        return Check("config", "wrong", f"no {setup.path}", "ask the owner for a code, then: relay.py enroll --url URL CODE")
    folder = os.path.dirname(os.path.abspath(setup.path))
    if os.stat(setup.path).st_mode & 0o077:
        return Check("config", "wrong", f"others on this machine can read {setup.path}, which holds the key",
                     f"chmod 600 {shlex.quote(setup.path)}; if others use this machine, ask the owner for a new key too")
    if os.stat(folder).st_mode & 0o022:
        return Check("config", "wrong", f"others on this machine can replace files in {folder}",
                     f"chmod 700 {shlex.quote(folder)}")
    return Check("config", "ok", f"{setup.path}, executor {setup.config.get('executor')}", None)


def check_state(setup):
    if not os.path.isdir(setup.state):
        return [Check("state", "ok", f"{setup.state} is not there yet; it is made when it is needed", None)]
    if os.stat(setup.state).st_mode & 0o077:
        return [Check("state", "wrong", f"others on this machine can look into {setup.state}, which holds claim tokens",
                      f"chmod 700 {shlex.quote(setup.state)}")]
    if not os.access(setup.state, os.W_OK | os.X_OK):
        return [Check("state", "wrong", f"this user cannot write to {setup.state}",
                      f"sudo chown -R {getpass.getuser()} {shlex.quote(setup.state)}")]
    return [Check("state", "ok", setup.state, None)]


def check_hub(setup):
    """From the name to the clock: the first thing that is wrong hides the rest."""
    try:
        hub = setup.hub(lambda _: None)
    except (ValueError, OSError) as error:
        return [Check("hub", "wrong", str(error), "set it right, then run doctor again")]
    checks = [check_network(hub)]
    if checks[-1].state == "wrong":
        return checks
    before = now(), time.time()
    try:
        answer = hub.call("/executor/ping", {"version": f"relay/{VERSION}"}, CALL_TIMEOUT_SECONDS) or {}
    except HubError as error:
        key = error.status in (401, 403)
        todo = ("the key was revoked, or belongs to another hub: ask the owner for a new code and enroll again"
                if error.status == 401 else "do what it says, or try again later" if error.status else
                "is this a hub? Open its address with /healthz in a browser")
        return [*checks, Check("key" if key else "hub", "wrong", f"{error.code}: {error.detail}", todo)]
    executor, expected = answer.get("executor"), setup.config.get("executor")
    checks.append(Check("key", "ok", f"the hub knows this key as executor {executor}", None)
                  if expected in (None, executor) or setup.environ.get("TASKHUB_KEY") else
                  Check("key", "note", f"the key is executor {executor}'s, {setup.path} says {expected}",
                        "enroll again if that is not meant"))
    checks.append(check_clock(number(answer.get("server_time"), 0) / 1000, (before[1] + time.time()) / 2))
    paused = "the owner has paused this executor: it gets nothing until it is resumed" if answer.get("paused") else None
    checks.append(Check("work", "note" if paused else "ok", paused or str(answer.get("next") or "it may claim"),
                        "ask the owner to resume it" if paused else None))
    return [*checks, check_version(hub)]


def check_network(hub: Hub) -> Check:
    try:
        way = hub.look()
    except ssl.SSLCertVerificationError as error:
        return Check("tls", "wrong", f"the certificate of {hub.url} is not accepted: {error.verify_message}",
                     "set this machine's date right and install its CA certificates (Debian: ca-certificates); behind a proxy "
                     "that looks into TLS, name its CA in SSL_CERT_FILE")
    except ssl.SSLError as error:
        return Check("tls", "wrong", f"no TLS with {hub.url}: {error}", "does that port speak https? Check the address and proxy")
    except socket.gaierror as error:
        return Check("network", "wrong", f"the name in {hub.url} is not found: {error}", "check the address, and this machine's DNS")
    except (OSError, http.client.HTTPException) as error:
        return Check("network", "wrong", f"no connection to {hub.url}: {type(error).__name__}: {error}",
                     "is the hub up, and is there a firewall? A proxy is named in https_proxy")
    return Check("network", "ok", way, None)


def check_clock(hub_time: float, own_time: float) -> Check:
    ahead = own_time - hub_time
    says = f"this machine is {abs(ahead):.1f} s {'ahead of' if ahead >= 0 else 'behind'} the hub"
    if abs(ahead) < CLOCK_SECONDS_MAX:
        return Check("clock", "ok", says, None)
    return Check("clock", "note", f"{says}; the relay does not mind, other programs and certificates may",
                 "turn on time synchronisation: sudo timedatectl set-ntp true")


def check_version(hub: Hub) -> Check:
    with open(os.path.abspath(__file__), "rb") as file:
        own = hashlib.sha256(file.read()).hexdigest()
    try:
        sums = hub.fetch("/kit/SHA256SUMS", CALL_TIMEOUT_SECONDS).decode(errors="replace")
    except HubError as error:
        return Check("version", "ok", f"relay {VERSION}; the hub offers no kit to compare it with ({error.code})", None)
    offered = next((line.split()[0] for line in sums.splitlines() if line.split()[1:] in (["relay.py"], ["*relay.py"])), None)
    if offered in (None, own):
        return Check("version", "ok", f"relay {VERSION}, as the hub offers it" if offered else f"relay {VERSION}", None)
    return Check("version", "note", f"relay {VERSION} is not the one that the hub offers",
                 f"curl -fsSL {hub.url}/kit/install.sh | sh -s -- --upgrade")


def check_runner(setup) -> Check:
    try:
        runner = runner_from(setup, [])
    except ValueError as error:
        return Check("runner", "wrong", str(error), f"name a runner or a command in {setup.path}, or install that program")
    if runner is None:
        return Check("runner", "note", "nothing is to be run: claims are for the verbs only",
                     f'put "runner": "{AUTOMATIC[0]}" or "command": ["program", "argument"] into {setup.path}, or give a command '
                     "after --")
    found = shutil.which(runner.words[0])
    if runner.preset is None:
        return Check("runner", "ok", f"the command {found}", None)
    try:
        said = subprocess.run([found, "--version"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=VERSION_SECONDS_MAX, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        return Check("runner", "wrong", f"{found} --version does not work: {one_line(str(error), 200)}",
                     f"run it by hand; reinstall {runner.preset}, or sign in to it")
    version = one_line(readable(said), 80)
    return Check("runner", "ok", f"{runner.preset} at {found}, {version}. {RUNNERS[runner.preset].advice}", None)


def check_service(environ) -> Check:
    home = os.path.expanduser("~")
    unit = os.path.join(os.path.dirname(os.path.dirname(places(environ)[0])), "systemd", "user", "taskhub-relay.service")
    agents = os.path.join(home, "Library", "LaunchAgents")
    agent = next((name for name in (os.listdir(agents) if os.path.isdir(agents) else []) if "taskhub" in name), None)
    if os.path.exists(unit):
        if said_by("systemctl", "--user", "is-active", "taskhub-relay") != "active":
            return Check("service", "wrong", "the systemd user unit taskhub-relay is not running",
                         "systemctl --user restart taskhub-relay; why it ended: journalctl --user -u taskhub-relay -n 50")
        if said_by("loginctl", "show-user", getpass.getuser(), "-p", "Linger", "--value") == "no":
            return Check("service", "note", "taskhub-relay runs, but ends when this user logs out",
                         f"sudo loginctl enable-linger {getpass.getuser()}")
        return Check("service", "ok", "the systemd user unit taskhub-relay is running", None)
    if agent:
        label = agent[:-len(".plist")] if agent.endswith(".plist") else agent
        if said_by("launchctl", "list", label) is None:
            return Check("service", "wrong", f"the launch agent {label} is not loaded",
                         f"launchctl load {shlex.quote(os.path.join(agents, agent))}")
        return Check("service", "ok", f"the launch agent {label} is loaded", None)
    return Check("service", "note", "no service is installed", "start the relay yourself (relay.py run), or run install.sh again")


def said_by(*words):
    """What a program prints, or None if it cannot be run or says nothing."""
    try:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              timeout=VERSION_SECONDS_MAX, check=False)
    except (OSError, subprocess.SubprocessError):
        return None
    return readable(done.stdout) or None


def check_library() -> Check:
    if websocket:
        return Check("listening", "ok", "websocket-client is there: the hub tells this relay of work at once", None)
    return Check("listening", "ok", "websocket-client is not there: the relay polls, which works as well, a little later", None)


def ping(hub: Hub) -> int:
    """Prints what the hub says about this executor. Like doctor, it looks at this machine's wall clock."""
    before = time.time()
    answer = hub.call("/executor/ping", {"version": f"relay/{VERSION}"}, CALL_TIMEOUT_SECONDS) or {}
    clock = check_clock(number(answer.get("server_time"), 0) / 1000, (before + time.time()) / 2)
    queues = [f"{q.get('name') or 'addressed to it'} ({q.get('ready')} ready)"
              for q in answer.get("queues") or [] if isinstance(q, dict)]
    print(f"executor  {answer.get('executor')}, holding {answer.get('held')} tasks")
    print(f"queues    {', '.join(queues) or 'none: only tasks addressed to this executor'}")
    print(f"hub       {answer.get('hub_version')} at {hub.url}; relay {VERSION}")
    print(f"clock     {clock.says}")
    print("limits    " + ", ".join(f"{name} {value}" for name, value in (answer.get("limits") or {}).items()))
    return EXIT_OK


# The command line.

def parse_arguments(argv):
    """The options, and the command after `--`."""
    split = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(prog="relay.py", description="Runs a command for each task of a taskhub executor.",
                                     epilog="The key comes from relay.json, TASKHUB_KEY or --key-file, never from an argument.")
    parser.add_argument("--version", action="version", version=f"taskhub relay {VERSION}")
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    for verb, does, add_options in VERBS:
        adds = {} if verb not in ("run", "once") else {"usage": f"relay.py {verb} [options] [-- command args ...]"}
        add = verbs.add_parser(verb, help=does, description=does, **adds).add_argument
        add("--hub", "--url", help="the hub's URL (or TASKHUB_URL; else what relay.json says)")
        add("--config", help="another relay.json (or TASKHUB_CONFIG)")
        add("--key-file", help="a file that holds only the executor's key")
        add("--allow-http", action="store_true", help="plain http to another machine, on a network you trust")
        add_options(add)
    options, command = parser.parse_args(argv[:split]), argv[split + 1:]
    if "grace" in options and not 0 <= options.grace <= 3600:
        parser.error("--grace is 0 to 3600 seconds")
    if getattr(options, "concurrency", None) is not None and options.concurrency < 1:
        parser.error("--concurrency starts at 1")
    return options, command


def work_options(add):
    add("--queues", default="", help="only these queues, with commas between (default: all served)")
    add("--concurrency", type=int, help="commands that may run at a time (default 1)")


def run_options(add):
    work_options(add)
    add("--runner", choices=sorted(RUNNERS), help="a model's command line instead of a command")
    add("--grace", type=float, default=GRACE_SECONDS,
        help="seconds from SIGTERM to SIGKILL when a command must stop (default %(default)s)")


def listen_options(add):
    run_options(add)
    add("--no-listen", action="store_true", help="poll, even where the relay could listen")


def enroll_options(add):
    work_options(add)
    add("--runner", choices=sorted(RUNNERS), help="the model's command line to run (default: the first that is found)")
    add("--command", help="a line for sh to run instead, for each task")
    add("code", metavar="CODE", help="the one-time code that the owner was given")


def json_option(add):
    add("--json", action="store_true", help="print JSON")


VERBS = (
    ("run", "claim and run tasks until stopped", listen_options),
    ("once", "run what is ready, then exit", run_options),
    ("doctor", "look whether all is well, and say what to do if not", json_option),
    ("ping", "print what the hub says about this executor", lambda add: None),
    ("enroll", "trade a one-time code for a key, and write relay.json", enroll_options),
)


def main(argv) -> int:
    options, command = parse_arguments(argv)
    log, environ = Log(), dict(os.environ)
    setup = trouble = None
    try:
        setup = Setup(options, environ, log)
    except (ValueError, OSError) as error:
        trouble = str(error)
    if options.verb == "doctor":
        return doctor(setup, trouble, environ, options.json)
    try:
        if setup is None:
            raise ValueError(trouble)
        if options.verb == "enroll":
            return enroll(setup, log)
        if options.verb == "ping":  # It tries once, and says itself what came of it.
            return ping(setup.hub(lambda _: None))
        runner = runner_from(setup, command)
        if runner is None:
            raise ValueError(f"which command? Put it after two dashes: relay.py {options.verb} -- command args; or name a runner "
                             f"or a command in {setup.path}")
        return run(setup, runner, log)
    except HubError as error:
        log(f"{error.code}: {error.detail}")
        return EXIT_USAGE if error.status == 401 else EXIT_FAILED
    except (ValueError, OSError) as error:
        log(str(error))
        return EXIT_USAGE


def run(setup: Setup, runner, log: Log) -> int:
    options, config = setup.options, setup.config
    queues = names_in(options.queues) or config.get("queues") or []
    concurrency = options.concurrency or config.get("concurrency") or 1
    listen = options.verb == "run" and not options.no_listen
    return Relay(setup.hub(log), log, runner.words, queues, concurrency, options.grace, options.verb == "once", listen).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

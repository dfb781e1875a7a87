// kit/install.sh on machines that have nothing but python3 and curl, against a real hub.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import http from "node:http";
import { stat } from "node:fs/promises";
import path from "node:path";
import { describe, test } from "node:test";

import { startHub } from "./harness/hub.mjs";
import { Machine, SHELLS } from "./harness/machine.mjs";
import { until } from "./harness/until.mjs";

const KEPT = { ".profile": "umask 022\n", ".config/editor/settings": "tab = 4\n" };
const RELAY = ".local/share/taskhub/relay.py";
const CONFIG = ".config/taskhub/relay.json";
const UNIT = ".config/systemd/user/taskhub-relay.service";
/** A program instead of a model: it says what it was given. */
const COMMAND = `--command '${[
  "echo reading >&2",
  "bytes=$(wc -c)",
  'for file in "$TASKHUB_IN"/*; do [ ! -f "$file" ] || tr a-z A-Z < "$file" > "$TASKHUB_OUT/upper ${file##*/}"; done',
  "sleep 1",
  'printf "read %s bytes" "$bytes"',
].join("; ")}'`;

/** A code for an executor, which is made if need be, with the line that the hub gives for it. */
async function invite(hub, name = "box", headers = {}) {
  const isThere = (await hub.owner("GET", "/api/executors")).body.executors.some((executor) => executor.name === name);
  const answer = isThere
    ? await hub.owner("POST", `/api/executors/${name}/enroll`, {}, headers)
    : await hub.owner("POST", "/api/executors", { name, queues: ["errands"], enroll: true }, headers);
  assert.equal(answer.status, 201, answer.text);
  return answer.body;
}

/** The line that installs, with further options. */
const line = (hub, options) => `curl -fsSL ${hub.url}/kit/install.sh | sh -s -- ${options}`;

async function furnished(t, options) {
  const machine = await Machine.start(t, options);
  for (const [name, text] of Object.entries(KEPT)) await machine.write(name, text);
  return machine;
}

/** Requests that reached the object so far. */
const count = async (hub) => (await hub.test("GET", "requests")).count;

/** Runs a line that must go well. */
async function well(machine, text, env) {
  const { code, out } = await machine.run(text, env);
  assert.equal(code, 0, `${text}\n${out}`);
  return out;
}

/** The command with which the installer says that the relay is started. */
function startLine(out) {
  const found = /Start it: ((?:nohup|trap) .* &)$/m.exec(out);
  assert.ok(found, out);
  return found[1];
}

async function isOnline(hub, name = "box") {
  const { body } = await hub.owner("GET", "/api/executors");
  return body.executors.find((executor) => executor.name === name).online;
}

/** Does one task on whatever machine works as the executor. */
async function doesATask(hub, machine) {
  const larger = await hub.mcp.tool("create_upload_link", { name: "larger.txt" });
  const uploaded = await fetch(larger.upload_url, { method: "PUT", body: "abc\n".repeat(500_000) });
  assert.equal(uploaded.status, 201, await uploaded.text());
  const files = [{ name: "a list.txt", text: "milk and eggs" }, { file_id: larger.file_id }];
  const id = await hub.submit({ executor: "box", title: "Count", instructions: "Count me.", input_files: files });
  const task = await hub.untilState(id, "completed", 30_000).catch(async (error) => {
    const log = await machine.read(".local/state/taskhub/relay.log").catch(() => "no log");
    throw new Error(`${error.message}\nthe relay's log: ${log}`);
  });
  assert.match(task.result, /^read \d+ bytes$/);
  assert.equal(task.attempt, 1);
  const { attachments } = await hub.mcp.tool("get_task", { task_id: id });
  const output = (name) => attachments.find((file) => file.kind === "output" && file.name === name)?.file_id;
  const small = await hub.mcp.tool("get_attachment", { file_id: output("upper a list.txt") });
  assert.equal(small.text, "MILK AND EGGS");
  const { url } = await hub.mcp.tool("get_attachment", { file_id: output("upper larger.txt") });
  assert.equal(await (await fetch(url)).text(), "ABC\n".repeat(500_000));
}

describe("the kit's installer", { concurrency: 2 }, () => {
  test("a fresh machine enrols, works, survives a power cut, is upgraded, and leaves no trace", async (t) => {
    const hub = await startHub(t, { LEASE_SECONDS: 4 });
    const machine = await furnished(t);
    const before = await machine.listing();
    const { command, code } = await invite(hub);
    const out = await well(machine, `${command} ${COMMAND}`);
    assert.match(out, new RegExp(`this machine is the executor box of ${hub.url}`));
    assert.match(out, /all is well/, "the doctor has looked");
    const { key } = JSON.parse(await machine.read(CONFIG));
    assert.match(key, /^exk_box\./);
    assert.ok(!out.includes(key), "the key is not told");

    await well(machine, startLine(out));
    await until(() => isOnline(hub), { what: "the executor to come" });
    await doesATask(hub, machine);
    for (const { words } of await machine.processes()) {
      assert.ok(!words.some((word) => word.includes(key) || word.includes(code)), `a secret in ${words}`);
    }

    const cutOff = await hub.submit({ executor: "box", instructions: "Count me." });
    await hub.untilState(cutOff, "working");
    await machine.cutPower();
    await well(machine, startLine(out));
    assert.equal((await hub.untilState(cutOff, "completed", 30_000)).attempt, 2);

    const current = await machine.read(RELAY);
    await machine.write(RELAY, `${current}# An older one.\n`, 0o600);
    assert.match(await well(machine, "~/.local/bin/taskhub-relay doctor"), /not the one that the hub offers/);
    const upgraded = await well(machine, line(hub, "--upgrade"));
    assert.match(upgraded, /A relay that runs already goes on as it was: stop it \(kill \d+/);
    assert.equal(await machine.read(RELAY), current);
    assert.equal(JSON.parse(await machine.read(CONFIG)).key, key, "the key stays");
    await doesATask(hub, machine);

    const removed = await well(machine, line(hub, "--uninstall"));
    assert.deepEqual(await machine.listing(), before);
    assert.deepEqual(await machine.processes(), [], "and nothing runs");
    const [, id] = /DELETE \S+\/api\/executors\/box\/keys\/(key_\w+)/.exec(removed);
    assert.equal((await hub.owner("DELETE", `/api/executors/box/keys/${id}`)).status, 200, "it says which key to end");
    assert.match(await well(machine, line(hub, "--uninstall")), /nothing is installed/);
    assert.deepEqual(await machine.listing(), before);
  });

  for (const shell of SHELLS) {
    test(`${shell} installs, the same line twice as once, from a home with a strange name`, async (t) => {
      const hub = await startHub(t);
      const machine = await furnished(t, { shell, home: "it's $HOME, \"50%\"" });
      // Without it, something else compares the checksums.
      if (shell === "busybox") await machine.lacks("sha256sum");
      const before = await machine.listing();
      const { command } = await invite(hub);
      // Whatever the user's umask is, nobody else reads the key.
      await well(machine, `umask 000 && ${command} ${COMMAND}`);
      for (const [name, mode] of [[CONFIG, 0o600], [".config/taskhub", 0o700], [".local/share/taskhub", 0o700]]) {
        assert.equal((await stat(path.join(machine.files, name))).mode & 0o777, mode, name);
      }
      const installed = await machine.listing();
      const again = await well(machine, `${command} ${COMMAND}`);
      assert.match(again, /the code was used before, and this machine has a key that works/);
      assert.deepEqual(await machine.listing(), installed);
      const out = await well(machine, line(hub, ""));
      assert.deepEqual(await machine.listing(), installed, "without options it is an upgrade");
      await well(machine, startLine(out));
      await doesATask(hub, machine);
      await well(machine, line(hub, "--uninstall"));
      assert.deepEqual(await machine.listing(), before);
      assert.deepEqual(await machine.processes(), []);
    });
  }

  test("a dry run says every step, and changes nothing", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const { command, code } = await invite(hub);
    const before = await machine.listing();
    const requests = await count(hub);
    const out = await well(machine, `${command} ${COMMAND} --dry-run`);
    for (const step of ["download relay.py", "trade the code", "put relay.py", "nothing was changed"]) {
      assert.ok(out.includes(step), `${step}: ${out}`);
    }
    assert.deepEqual(await machine.listing(), before);
    assert.equal(await count(hub), requests, "and asks nothing of the hub");
    await well(machine, `${line(hub, `--enroll ${code}`)} ${COMMAND}`);
    const installed = await machine.listing();
    await well(machine, line(hub, "--uninstall --dry-run"));
    await well(machine, line(hub, "--upgrade --dry-run"));
    assert.deepEqual(await machine.listing(), installed);
  });

  test("a code that is no good installs nothing, and says what to do", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const before = await machine.listing();
    const other = await Machine.start(t);
    const used = await invite(hub);
    await well(other, `${used.command} ${COMMAND}`);
    const expired = await invite(hub, "box", { "x-test-now": String(Date.now() - 700_000) });
    const early = await invite(hub, "idle");
    await hub.owner("PATCH", "/api/executors/idle", { disabled: true });
    const gone = await invite(hub, "gone");
    await hub.owner("DELETE", "/api/executors/gone");
    for (const [code, says] of [
      [used.code, /code_used: .*Ask|ask the\s+owner/],
      [expired.code, /code_expired: .*Ask the hub's owner for a new one/],
      [early.code, /executor_disabled: .*Ask the owner to enable it/],
      [gone.code, /code_withdrawn: .*Ask the hub's owner for a new code/],
      [`${used.code}x`, /code_invalid: .*Copy it again/],
    ]) {
      const { code: status, out } = await machine.run(line(hub, `--enroll ${code}`));
      assert.equal(status, 1, out);
      assert.match(out, says);
      assert.match(out, /nothing was installed/);
      assert.deepEqual(await machine.listing(), before, out);
    }
    await hub.owner("PATCH", "/api/executors/idle", { disabled: false });
    await well(machine, `${early.command} ${COMMAND}`);
  });

  test("an answer that was lost costs no second code", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const { code } = await invite(hub);
    let lost = 0;
    const proxy = await startProxy(t, hub, (request) => {
      if (request.url !== "/executor/enroll" || lost > 0) return null;
      lost += 1;
      return "lose";
    });
    await well(machine, `${line(proxy, `--enroll ${code}`)} ${COMMAND}`);
    assert.equal(lost, 1);
    const { keys } = (await hub.owner("GET", "/api/executors/box/keys")).body;
    assert.equal(keys.length, 1);
  });

  test("a relay with another checksum is not installed, and the code stays good", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const before = await machine.listing();
    const { code } = await invite(hub);
    for (const name of ["relay.py", "SKILL.md"]) {
      const proxy = await startProxy(t, hub, (request) => (request.url.startsWith(`/kit/${name}`) ? "tamper" : null));
      const { code: status, out } = await machine.run(line(proxy, `--enroll ${code}`));
      assert.equal(status, 1, out);
      assert.match(out, new RegExp(`${name} has another checksum than this script says, so nothing was changed`));
      assert.deepEqual(await machine.listing(), before);
    }
    await well(machine, `${line(hub, `--enroll ${code}`)} ${COMMAND}`);
    const installed = await machine.listing();
    const proxy = await startProxy(t, hub, (request) => (request.url.startsWith("/kit/relay.py") ? "tamper" : null));
    assert.equal((await machine.run(line(proxy, "--upgrade"))).code, 1);
    assert.deepEqual(await machine.listing(), installed, "what was there stays");
  });

  test("a script that was cut off does nothing, wherever that was", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const before = await machine.listing();
    const requests = await count(hub);
    const { text } = await hub.request("GET", "/kit/install.sh");
    const cuts = new Set();
    for (let at = 0; at < text.length; at += 701) cuts.add(at);
    for (let at = text.length - 60; at < text.trimEnd().length; at += 1) cuts.add(at);
    await machine.write("cut/whole", text);
    const checks = [...cuts].map((at) => `head -c ${at} cut/whole | sh -s -- --uninstall 2>&1 | grep '^taskhub' && echo ran ${at}`);
    const { out } = await machine.run(`{ ${checks.join("\n")}\n:; }`);
    assert.equal(out, "");
    assert.equal(await count(hub), requests);
    assert.deepEqual((await machine.listing()).filter((entry) => !entry.startsWith("cut")), before);
  });

  test("with a systemd user manager it installs a unit, and takes it away again", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const before = await machine.listing();
    // A stand-in: it writes down what it is told, and says that all is well. No user manager runs where tests do.
    const record = path.join(machine.home, "..calls");
    await machine.program("systemctl", `#!/bin/sh\necho "systemctl $*" >>${record}\ncase $* in *is-active*) echo active ;; esac\n`);
    await machine.program("loginctl", `#!/bin/sh\necho "loginctl $*" >>${record}\ncase $* in *show-user*) echo no ;; esac\n`);
    const { command } = await invite(hub);
    const out = await well(machine, `${command} ${COMMAND}`, { XDG_STATE_HOME: `${machine.home}/a state` });
    assert.match(out, /journalctl --user -u taskhub-relay/);
    const unit = await machine.read(UNIT);
    assert.match(unit, /^Restart=always$/m);
    assert.match(unit, /^RestartPreventExitStatus=2$/m);
    assert.ok(unit.includes(`Environment="XDG_STATE_HOME=${machine.home}/a state"`), unit);
    const [, start] = /^ExecStart=(.*)$/m.exec(unit);
    assert.match(start, /^"\S+python3" "\S+\/relay\.py" run$/);
    // As the unit would: the same words, which quote as a shell does here.
    await well(machine, `exec ${start} >relay.log 2>&1 &`, { XDG_STATE_HOME: `${machine.home}/a state` });
    await doesATask(hub, machine);
    await well(machine, line(hub, "--uninstall"), { XDG_STATE_HOME: `${machine.home}/a state` });
    const calls = (await machine.read("..calls")).trim().split("\n").map((call) => call.replace(/--quiet |--no-ask-password /, ""));
    const inOrder = calls.filter((call) => !/show-environment|is-active|show-user/.test(call));
    assert.deepEqual(inOrder, [
      "systemctl --user daemon-reload",
      "systemctl --user enable taskhub-relay.service",
      "systemctl --user restart taskhub-relay.service",
      "loginctl enable-linger",
      "systemctl --user disable --now taskhub-relay.service",
      "systemctl --user daemon-reload",
      "systemctl --user reset-failed taskhub-relay.service",
      "loginctl disable-linger",
    ]);
    const own = ["..calls", "relay.log"];
    assert.deepEqual((await machine.listing()).filter((entry) => !own.includes(entry.split(" ")[0])), before);
    assert.deepEqual(await machine.processes(), []);
  });

  test("with launchd it installs an agent, and takes it away again", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t, { home: "<it's> & mine" });
    const before = await machine.listing();
    // Stand-ins again: of macOS there is only what the script looks at.
    const record = "..calls";
    await machine.program("uname", "#!/bin/sh\necho Darwin\n");
    await machine.program("launchctl", `#!/bin/sh\necho "launchctl $*" >>"$HOME/${record}"\n`);
    await machine.program("systemctl", "#!/bin/sh\nexit 1\n");
    const { command } = await invite(hub);
    const out = await well(machine, `${command} ${COMMAND}`);
    assert.match(out, /tail -f .*relay\.log/);
    const read = "import json, plistlib, sys; print(json.dumps(plistlib.load(sys.stdin.buffer)))";
    const agent = JSON.parse(await well(machine, `python3 -c '${read}' <Library/LaunchAgents/taskhub.relay.plist`));
    assert.equal(agent.Label, "taskhub.relay");
    assert.deepEqual(agent.ProgramArguments.slice(1), [`${machine.home}/${RELAY}`, "run"]);
    assert.equal(agent.RunAtLoad, true);
    await well(machine, line(hub, "--uninstall"));
    const user = (await well(machine, "id -u")).trim();
    assert.deepEqual((await machine.read(record)).trim().split("\n").filter((call) => !call.includes(" list ")), [
      `launchctl bootout gui/${user}/taskhub.relay`,
      `launchctl bootout user/${user}/taskhub.relay`,
      `launchctl bootstrap gui/${user} ${machine.home}/Library/LaunchAgents/taskhub.relay.plist`,
      `launchctl bootout gui/${user}/taskhub.relay`,
      `launchctl bootout user/${user}/taskhub.relay`,
    ]);
    assert.deepEqual((await machine.listing()).filter((entry) => !entry.startsWith(record)), before);
  });

  test("what is missing is named, with how to install it", async (t) => {
    const hub = await startHub(t);
    // Only here does the machine's PATH hold nothing but what is linked.
    const machine = await furnished(t, { shell: SHELLS.includes("busybox") ? "busybox" : "dash" });
    const { code } = await invite(hub);
    await machine.write("install.sh", (await hub.request("GET", "/kit/install.sh")).text);
    const before = await machine.listing();
    for (const tool of ["curl", "python3"]) {
      const found = await machine.lacks(tool);
      const { code: status, out } = await machine.run(`sh install.sh --enroll ${code}`);
      assert.equal(status, 1, out);
      assert.match(out, new RegExp(`${tool} is missing\\. Install it \\(Debian: apt install ${tool}`));
      await machine.link(tool, found);
    }
    await machine.program("python3", "#!/bin/sh\nexit 1\n");
    assert.match((await machine.run(`sh install.sh --enroll ${code}`)).out, /Install Python 3\.8 or later/);
    assert.deepEqual(await machine.listing(), before);
  });

  test("without anything to run it says so, and starts nothing", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const { command } = await invite(hub);
    const out = await well(machine, command);
    assert.match(out, /Nothing is run for a task yet: .* install\.sh \| sh -s -- --upgrade|Nothing is run for a task yet/);
    assert.ok(!/Start it: /.test(out), out);
  });

  test("options that make no sense are refused with what does", async (t) => {
    const hub = await startHub(t);
    const machine = await furnished(t);
    const before = await machine.listing();
    for (const [options, status, says] of [
      ["", 1, /not enrolled.*Ask the hub's owner for a code/],
      ["--upgrade", 1, /not enrolled/],
      ["--enroll", 2, /--enroll needs a value/],
      ["--enroll ''", 2, /--enroll needs a value/],
      ["--enroll exk_box.a.b", 2, /begins with enr_/],
      ["--enroll enr_x --upgrade", 2, /does not go with --upgrade/],
      ["--runner claude", 2, /go with --enroll/],
      ["--enroll enr_x --runner claude --command true", 2, /exclude each other/],
      ["--pruge", 2, /there is no option --pruge/],
      ["--help", 0, /--uninstall\s+stop the relay and remove everything/],
    ]) {
      const { code, out } = await machine.run(line(hub, options));
      assert.equal(code, status, `${options}: ${out}`);
      assert.match(out, says);
    }
    assert.deepEqual(await machine.listing(), before);
  });
});

describe("what the hub serves of the kit", () => {
  test("files with types, tags and sums, without a request to the object", async (t) => {
    const hub = await startHub(t);
    const requests = await count(hub);
    const sums = (await hub.request("GET", "/kit/SHA256SUMS")).text;
    for (const [name, type] of [
      ["install.sh", "text/x-shellscript; charset=utf-8"],
      ["relay.py", "text/x-python; charset=utf-8"],
      ["SKILL.md", "text/markdown; charset=utf-8"],
    ]) {
      const whole = await hub.request("GET", `/kit/${name}`);
      assert.deepEqual([whole.status, whole.headers.get("content-type")], [200, type]);
      assert.equal(whole.headers.get("cache-control"), "public, max-age=300");
      const sum = createHash("sha256").update(whole.text).digest("hex");
      assert.ok(sums.includes(`${sum}  ${name}\n`), name);
      const head = await hub.request("HEAD", `/kit/${name}`);
      assert.deepEqual([head.status, head.text], [200, ""]);
      assert.equal(head.headers.get("content-length"), String(Buffer.byteLength(whole.text)), name);
      const etag = whole.headers.get("etag");
      assert.equal(head.headers.get("etag"), etag);
      const again = await hub.request("GET", `/kit/${name}`, { headers: { "if-none-match": etag } });
      assert.deepEqual([again.status, again.text, again.headers.get("etag")], [304, "", etag]);
      assert.ok(!/@[A-Z_0-9]+@/.test(name === "relay.py" ? "" : whole.text), `${name} is filled in`);
    }
    assert.equal((await hub.request("POST", "/kit/relay.py")).status, 405);
    assert.equal((await hub.request("GET", "/kit/tests")).status, 404);
    assert.equal(await count(hub), requests);
  });

  test("with PUBLIC_URL everything names that", async (t) => {
    const hub = await startHub(t, { PUBLIC_URL: "https://hub.example" });
    for (const name of ["install.sh", "SKILL.md"]) {
      const { text } = await hub.request("GET", `/kit/${name}`);
      assert.ok(text.includes("https://hub.example") && !text.includes(hub.url), name);
    }
    const { command, code } = await invite(hub);
    assert.equal(command, `curl -fsSL https://hub.example/kit/install.sh | sh -s -- --enroll ${code}`);
    const answer = await hub.request("POST", "/executor/enroll", { body: { code, nonce: "a-nonce-of-this-test" } });
    assert.deepEqual([answer.status, answer.body.hub], [200, "https://hub.example"]);
  });

  test("a code that cannot be right costs no request to the object", async (t) => {
    const hub = await startHub(t);
    const { code } = await invite(hub);
    const requests = await count(hub);
    const nonce = "a-nonce-of-this-test";
    for (const [body, status, why] of [
      [{ code: `${code}x`, nonce }, 403, "code_invalid"],
      [{ code: "enr_box.a.1.b", nonce }, 403, "code_invalid"],
      [{ nonce }, 400, "bad_request"],
      ["junk", 400, "bad_request"],
      ["", 400, "bad_request"],
      ["x".repeat(1_100_000), 413, "too_large"],
    ]) {
      const answer = await hub.request("POST", "/executor/enroll", { body });
      assert.equal(answer.status, status, answer.text);
      assert.equal(answer.headers.get("content-type"), "application/problem+json");
      if (status !== 413) assert.equal(answer.body.code, why);
    }
    const expired = await invite(hub, "box", { "x-test-now": String(Date.now() - 700_000) });
    // The clock that the test build was told holds until the next request to the object.
    await hub.owner("GET", "/api/executors");
    const late = await hub.request("POST", "/executor/enroll", { body: { code: expired.code, nonce } });
    assert.deepEqual([late.status, late.body.code], [410, "code_expired"]);
    assert.equal(await count(hub), requests + 3, "the owner's");
    assert.equal((await hub.request("POST", "/executor/enroll", { body: { code, nonce } })).status, 200);
  });
});

/**
 * Stands before a hub and gives itself out for it. `meddle` says of a request what is done to it: "lose" its answer, "tamper" with
 * it, or nothing.
 */
async function startProxy(t, hub, meddle) {
  const server = http.createServer((request, response) => {
    const how = meddle(request);
    const { method, headers } = request;
    const onward = http.request(hub.url + request.url, { method, headers, setHost: false }, async (answer) => {
      const parts = [];
      for await (const part of answer) parts.push(part);
      if (how === "lose") return request.socket.destroy();
      if (how === "tamper") parts.push(Buffer.from("\n"));
      response.writeHead(answer.statusCode, { "content-type": answer.headers["content-type"] ?? "text/plain" });
      return response.end(Buffer.concat(parts));
    });
    onward.on("error", () => request.socket.destroy());
    request.pipe(onward);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}` };
}

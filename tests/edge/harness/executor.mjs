// An executor's side of the hub, over plain HTTP.

export class Executor {
  constructor(hub, name, key) {
    this.hub = hub;
    this.name = name;
    this.key = key;
  }

  /** One call of the executor API, with its answer whatever it is. */
  call(verb, body = {}, headers = {}) {
    const all = { authorization: `Bearer ${this.key}`, ...headers };
    return this.hub.request("POST", `/executor/${verb}`, { headers: all, body });
  }

  /** The next task as a `Claim`, or null. */
  async claim(body = {}) {
    const answer = await this.call("claim", body);
    if (answer.status === 204) return null;
    if (answer.status !== 200) throw new Error(`claim answered ${answer.status}: ${answer.text}`);
    return new Claim(this, answer.body);
  }
}

/** A claimed task, with the calls that its attempt may make. */
export class Claim {
  constructor(executor, answer) {
    this.executor = executor;
    this.answer = answer;
    this.id = answer.task.id;
    this.token = answer.claim_token;
  }

  call(verb, body = {}, headers = {}) {
    return this.executor.call(verb, { task_id: this.id, claim_token: this.token, ...body }, headers);
  }

  heartbeat(body) {
    return this.call("heartbeat", body);
  }

  complete(result = "Done.", more = {}) {
    return this.call("result", { status: "completed", result, ...more });
  }

  fail(error = "It broke.", more = {}) {
    return this.call("result", { status: "failed", error, ...more });
  }
}

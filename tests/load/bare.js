// The measure that scripts/bench holds the hub against: the least that a Durable Object can do with a call and still keep
// it. The front passes every request on to the one object, which stores the body in one INSERT and answers with its number.

import { DurableObject } from "cloudflare:workers";

const INSTANCE = "bare";

export class Bare extends DurableObject {
  constructor(state, env) {
    super(state, env);
    this.sql = state.storage.sql;
    this.sql.exec("CREATE TABLE IF NOT EXISTS calls (seq INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT");
  }

  async fetch(request) {
    const body = await request.text();
    const { seq } = this.sql.exec("INSERT INTO calls (body) VALUES (?) RETURNING seq", body).one();
    return Response.json({ seq }, { status: 201 });
  }
}

export default {
  fetch(request, env) {
    return env.BARE.get(env.BARE.idFromName(INSTANCE)).fetch(request);
  },
};

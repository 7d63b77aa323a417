// What people do with clients in JavaScript: Cube's driver, Evidence's connector, presto-client and
// trino-client. Run by test_tools.py, which checks what this writes: PORT TABLE.

import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const require = createRequire(path.join(process.cwd(), "program.js"));
const [port, table] = process.argv.slice(2);
const host = "127.0.0.1";
const place = { host, port: Number(port), user: "ann", catalog: "lake", schema: "default" };
const ALL = `SELECT id, channel, price, at FROM ${table}_times ORDER BY id`;
const WRONG = `SELECT nothing FROM ${table}`;
const ENDLESS =
  "SELECT count(*) FROM UNNEST(sequence(1, 10000)) a(a), UNNEST(sequence(1, 10000)) b(b)," +
  " UNNEST(sequence(1, 10000)) c(c) WHERE a + b + c = -1";

const said = async (work) => {
  try {
    await work();
  } catch (error) {
    return String(error?.message ?? error).split("\n")[0];
  }
  return "no error";
};

async function cube() {
  const { TrinoDriver } = require("@cubejs-backend/trino-driver");
  const driver = new TrinoDriver({ ...place, pool: {} });
  await driver.testConnection();
  await driver.query(
    `CREATE TABLE ${table}_times AS SELECT id, channel, price,` +
      ` from_unixtime(id * 3600) AS at, name FROM ${table} CROSS JOIN (VALUES 'it''s ü') t(name)`,
    [],
  );
  const columns = await driver.queryColumnTypes(ALL, []);
  const stream = await driver.stream(ALL, [], { highWaterMark: 2 });
  let streamed = 0;
  for await (const _ of stream.rowStream) streamed += 1;
  const known = await driver.tablesSchema();
  await driver.createSchemaIfNotExists("cubes");
  const made = "cubes.rollup";
  await driver.loadPreAggregationIntoTable(
    made,
    `CREATE TABLE ${made} AS SELECT channel, sum(price) AS total FROM ${table} GROUP BY 1`,
    [],
    {},
  );
  const rollup = await driver.query(`SELECT * FROM ${made} ORDER BY channel`, []);
  await driver.dropTable(made);
  await driver.query("DROP SCHEMA cubes", []);
  return {
    types: columns.map((column) => column.type),
    filtered: await driver.query(`SELECT id FROM ${table}_times WHERE name = ? AND id > ? ORDER BY id`, ["it's ü", 2]),
    streamed,
    known: known.default[table].map((column) => column.name),
    rollup,
    refused: await said(() => driver.query(WRONG, [])),
  };
}

async function evidence() {
  const run = require("@evidence-dev/trino");
  const options = { ...place, ssl: false, engine: "trino" };
  const found = await run(ALL, options);
  return {
    tested: await run.testConnection(options),
    rows: found.rows.length,
    types: found.columnTypes.map((column) => column.evidenceType),
    refused: (await said(() => run(WRONG, options))).slice(0, 45),
  };
}

async function prestoClient() {
  const { Client } = require("presto-client");
  const client = new Client({ ...place, engine: "trino" });
  const run = (query, options = {}) =>
    new Promise((resolve, reject) => {
      const rows = [];
      client.execute({
        query,
        data: (_, data) => rows.push(...data),
        success: () => resolve(rows),
        error: reject,
        ...options,
      });
    });
  let canceled = false;
  setTimeout(() => (canceled = true), 500);
  return {
    rows: (await run(ALL)).length,
    refused: await said(() => run(WRONG)),
    canceled: await said(() => run(ENDLESS, { cancel: () => canceled })),
    nodes: await new Promise((resolve) => client.nodes({}, (_, nodes) => resolve(nodes))),
  };
}

async function trinoClient() {
  const { BasicAuth, Trino } = require("trino-client");
  const auth = new BasicAuth("ann");
  const server = `http://${host}:${port}`;
  const client = Trino.create({ server, catalog: "lake", schema: "default", auth });
  const read = async (query) => {
    const rows = [];
    let last;
    for await (const result of await client.query(query)) {
      if (result.error) throw new Error(result.error.message);
      rows.push(...(result.data ?? []));
      last = result.id;
    }
    return { rows, last };
  };
  const { rows, last } = await read(ALL);
  const ended = said(() => read(ENDLESS));
  let running = [];
  while (!running.length) {
    const answer = await fetch(`${server}/v1/query?state=running`);
    running = (await answer.json()).filter((query) => query.query === ENDLESS);
  }
  await client.cancel(running[0].queryId);
  return {
    rows: rows.length,
    state: (await client.queryInfo(last)).state,
    refused: await said(() => read(WRONG)),
    canceled: await ended,
  };
}

const found = {
  cube: await cube(),
  evidence: await evidence(),
  "presto-client": await prestoClient(),
  "trino-client": await trinoClient(),
};
process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit(0));

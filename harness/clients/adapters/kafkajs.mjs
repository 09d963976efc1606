// kafkajs as a client that speaks the client protocol (docs/guides/own-client.md).

import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { crc32 } from "node:zlib";
import kafkajs from "kafkajs";

const { version } = createRequire(import.meta.url)("kafkajs/package.json");
const { Kafka, logLevel } = kafkajs;
const IDENTITY_BYTES = 20;
const BEGINS_WITHIN = 30_000;
// The most bytes of one send(), which makes one batch for each partition; brokers refuse batches of more than 1 MiB.
const MOST_BYTES = 500_000;
const FENCED = ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"];

const tell = (event, values = {}) => process.stdout.write(JSON.stringify({ event, ...values }) + "\n");

const checksum = (lane, value) => crc32(value.subarray(4), crc32(Buffer.from(lane)));

function encode(lane, producerId, seq, size) {
  const value = Buffer.alloc(size);
  value.write("KC01", 4);
  value.writeInt32BE(producerId, 8);
  value.writeBigInt64BE(BigInt(seq), 12);
  value.writeUInt32BE(checksum(lane, value), 0);
  return value;
}

function decode(lane, value) {
  if (!value || value.length < IDENTITY_BYTES || value.toString("latin1", 4, 8) !== "KC01") return [-1, -1];
  if (value.readUInt32BE(0) !== checksum(lane, value)) return [-1, -1];
  return [value.readInt32BE(8), Number(value.readBigInt64BE(12))];
}

async function newProducer(kafka, begin) {
  const producer = kafka.producer({
    idempotent: begin.idempotence,
    maxInFlightRequests: begin.max_in_flight,
    allowAutoTopicCreation: false,
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: Math.ceil(begin.delivery_timeout_ms / 1000) },
    ...(begin.transactional_id && {
      transactionalId: begin.transactional_id,
      transactionTimeout: begin.transaction_timeout_ms,
    }),
  });
  await producer.connect();
  // The transaction that is open, or the last one, and how many of its records have failed.
  let transaction = null;
  let failed = 0;
  // Set once another producer has the transactional id: a transaction without records would end without a request.
  let fenced = null;
  if (begin.transactional_id) {
    // kafkajs initialises the transactional id with the first transaction, and gives up if it loses a connection. So a first
    // transaction is begun here; without records, it sends nothing when it ends.
    for (const deadline = Date.now() + begin.delivery_timeout_ms; !transaction; ) {
      try {
        transaction = await producer.transaction();
      } catch (error) {
        if (Date.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, 500));
      }
    }
    await transaction.abort();
  }
  const acks = { 0: 0, 1: 1, all: -1 }[begin.acks];
  const open = new Set();

  async function send(first, count) {
    const seqs = Array.from({ length: count }, (_, step) => first + step);
    const messages = seqs.map((seq) => ({
      partition: begin.first_partition + (seq % begin.partitions),
      value: encode(begin.lane, begin.producer_id, seq, begin.record_size),
    }));
    try {
      const answers = await (transaction ?? producer).send({ topic: begin.topic, acks, messages });
      // A repeated send() skips brokers that have answered, even if a partition has moved to one of them meanwhile.
      if (acks && answers.length < new Set(messages.map(({ partition }) => partition)).size) {
        throw Object.assign(new Error("a partition has no answer"), { name: "Unanswered" });
      }
      // By partition, the offset of its next record: an answer has the offset of the first record, the others follow it.
      const next = new Map((acks ? answers : []).map((one) => [one.partition, Number(one.baseOffset)]));
      const offset = messages.map(({ partition }) => {
        const at = next.get(partition) ?? -1;
        if (at < 0) return null;
        next.set(partition, at + 1);
        return at;
      });
      tell("outcome", { outcome: "ok", seq: seqs, offset });
    } catch (error) {
      failed += seqs.length;
      if (FENCED.includes(error.type ?? error.cause?.type)) fenced = error;
      // Told as `info`: the error does not say what earlier attempts left in the log, or this one in other partitions.
      tell("outcome", { outcome: "info", seq: seqs, error: `${error.name}: ${error.message}` });
    }
  }

  const flush = () => Promise.all(open);
  const begun = (sending) => {
    open.add(sending);
    sending.finally(() => open.delete(sending));
    return sending;
  };
  const most = Math.ceil(MOST_BYTES / begin.record_size);
  // The records that wait to be sent one send() after the other: the first sequence number, and the count.
  let waiting = { first: 0, count: 0 };
  let inTurn = null;
  async function sendInTurn() {
    while (waiting.count) {
      const { first, count } = waiting;
      waiting = { first: first + Math.min(most, count), count: count - Math.min(most, count) };
      await send(first, Math.min(most, count));
    }
    inTurn = null;
  }
  // Open sends overtake each other if one is repeated (kafkajs #1005), and while topic and brokers are looked up (#1353).
  // So they go one by one: at first, until none waits, and always with one request in flight and in transactions.
  let together = false;
  async function end(did) {
    await flush();
    try {
      if (fenced) throw fenced;
      if (did === "commit" && failed) throw Object.assign(new Error(`${failed}`), { name: "RecordsFailed" });
      await transaction[did]();
      tell("transaction", { did });
    } catch (error) {
      tell("transaction", { did, error: `${error.name}: ${error.message}` });
    }
  }
  return {
    async begin_transaction() {
      failed = 0;
      try {
        transaction = await producer.transaction();
      } catch (error) {
        // If no transaction was begun, its end fails, and tells the harness.
        tell("notice", { text: String(error) });
      }
    },
    commit: () => end("commit"),
    abort: () => end("abort"),
    async produce({ first_seq, count }) {
      if (!together) {
        waiting = { first: waiting.count ? waiting.first : first_seq, count: waiting.count + count };
        inTurn ??= begun(sendInTurn());
        if (begin.max_in_flight > 1 && !transaction) inTurn.then(() => (together = true));
        return;
      }
      for (let done = 0; done < count; done += most) begun(send(first_seq + done, Math.min(most, count - done)));
    },
    async flush() {
      await flush();
      tell("flushed");
    },
    async leave() {
      await flush();
      await producer.disconnect();
    },
  };
}

// Repeated, since brokers return an error until they know the topic.
async function newConsumer(kafka, begin) {
  for (const deadline = Date.now() + BEGINS_WITHIN; ; await new Promise((resolve) => setTimeout(resolve, 500))) {
    try {
      return await tryConsumer(kafka, begin);
    } catch (error) {
      if (Date.now() > deadline) throw error;
    }
  }
}

async function tryConsumer(kafka, begin) {
  // kafkajs can only read as a member of a group. After a rebalance it reads anew, which the event `assigned` tells.
  const consumer = kafka.consumer({
    groupId: `kafka-chaos-${begin.client_id}-${process.pid}`,
    maxWaitTimeInMs: 100,
    readUncommitted: begin.isolation === "read_uncommitted",
  });
  let joined = false;
  consumer.on(consumer.events.GROUP_JOIN, () => {
    if (joined) tell("assigned");
    joined = true;
  });
  if (begin.isolation) {
    // This event comes for each batch, even for a batch that has only markers or aborted records.
    consumer.on(consumer.events.END_BATCH_PROCESS, ({ payload }) =>
      tell("at_end", { offsets: [[payload.partition, Number(payload.lastOffset) + 1]] }),
    );
  }
  try {
    await consumer.connect();
    await consumer.subscribe({ topic: begin.topic, fromBeginning: true });
  } catch (error) {
    await consumer.disconnect();
    throw error;
  }
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch: { partition, messages } }) => {
      const read = messages.map((one) => decode(begin.lane, one.headers?.["kafka-chaos-id"] ?? one.value));
      tell("read", {
        partition: messages.map(() => partition),
        offset: messages.map((one) => Number(one.offset)),
        producer_id: read.map(([producerId]) => producerId),
        seq: read.map(([, seq]) => seq),
      });
    },
  });
  for (const [partition, offset] of Object.entries(begin.start_offsets)) {
    consumer.seek({ topic: begin.topic, partition: Number(partition), offset: String(offset) });
  }
  return { leave: () => consumer.disconnect() };
}

async function main() {
  const lines = createInterface({ input: process.stdin });
  const orders = [];
  let wake = () => {};
  const add = (order) => {
    orders.push(order);
    wake();
  };
  // The harness has ended, so this process ends, too.
  lines.on("close", () => process.exit(130));
  lines.on("line", (line) => add(JSON.parse(line)));
  process.on("SIGINT", () => {});
  process.on("SIGTERM", () => add({ order: "leave" }));
  const next = async () => {
    while (!orders.length) await new Promise((resolve) => (wake = resolve));
    return orders.shift();
  };
  const begin = await next();
  // kafkajs logs each failure of a send() that it repeats; only the first failure counts.
  const isRepeated = ({ namespace, log }) => begin.log && namespace === "Producer" && log.retryCount === 0;
  const kafka = new Kafka({
    clientId: begin.client_id,
    brokers: begin.bootstrap_servers.split(","),
    requestTimeout: Math.min(30000, (begin.delivery_timeout_ms ?? 60000) / 2),
    logLevel: logLevel.ERROR,
    logCreator: () => (entry) => {
      const line = `[${entry.namespace}] ${entry.log.message}`;
      process.stderr.write(`${line} ${entry.log.error ?? ""}\n`);
      if (isRepeated(entry)) tell("log", { line });
      // Its position goes back without a rebalance: what follows is read under another name.
      const isReset = entry.log.message.startsWith("Offset out of range, resetting");
      if (isReset && begin.role === "consumer") tell("assigned");
    },
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 60 },
  });
  const client = begin.role === "producer" ? await newProducer(kafka, begin) : await newConsumer(kafka, begin);
  tell("ready", { client: "kafkajs", version });
  while (true) {
    const order = await next();
    await client[order.order]?.(order);
    if (order.order === "leave") return;
  }
}

main().then(
  () => process.exit(0),
  (error) => {
    process.stderr.write(`${error.stack}\n`);
    process.stdout.write(JSON.stringify({ event: "error", text: String(error) }) + "\n", () => process.exit(70));
  },
);

// A client that speaks the client protocol of kafka-chaos: producer and consumer, with kafkajs.

import { createInterface } from "node:readline";
import { crc32 } from "node:zlib";
import kafkajs from "kafkajs";

const tell = (event, values = {}) => process.stdout.write(JSON.stringify({ event, ...values }) + "\n");

const orders = [];
let wake = () => {};
const give = (order) => {
  orders.push(order);
  wake();
};
const next = async () => {
  while (!orders.length) await new Promise((resolve) => (wake = resolve));
  return orders.shift();
};
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => give(JSON.parse(line)));
lines.on("close", () => process.exit(130)); // nobody gives orders any more
process.on("SIGTERM", () => give({ order: "leave" })); // as the order to leave

const begin = await next();
const checksum = (value) => crc32(value.subarray(4), crc32(Buffer.from(begin.lane)));

function encode(seq) {
  const value = Buffer.alloc(begin.record_size);
  value.write("KC01", 4);
  value.writeInt32BE(begin.producer_id, 8);
  value.writeBigInt64BE(BigInt(seq), 12);
  value.writeUInt32BE(checksum(value), 0);
  return value;
}

function decode(value) {
  const isOne = value?.length >= 20 && value.toString("latin1", 4, 8) === "KC01";
  if (!isOne || value.readUInt32BE(0) !== checksum(value)) return [-1, -1];
  return [value.readInt32BE(8), Number(value.readBigInt64BE(12))];
}

const kafka = new kafkajs.Kafka({
  clientId: begin.client_id,
  brokers: begin.bootstrap_servers.split(","),
  requestTimeout: Math.min(30000, (begin.delivery_timeout_ms ?? 60000) / 2),
  logCreator: () => (entry) => console.error(entry.log.message), // standard output is for events alone
  retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: 60 },
});

async function produce() {
  const producer = kafka.producer({
    idempotent: begin.idempotence,
    maxInFlightRequests: begin.max_in_flight,
    retry: { initialRetryTime: 100, maxRetryTime: 1000, retries: Math.ceil(begin.delivery_timeout_ms / 1000) },
  });
  await producer.connect();
  tell("ready", { client: "my service", version: "1" });
  const open = new Set();
  const send = async (seqs) => {
    const messages = seqs.map((seq) => ({ partition: begin.first_partition + (seq % begin.partitions), value: encode(seq) }));
    try {
      const answers = await producer.send({ topic: begin.topic, acks: { 0: 0, 1: 1, all: -1 }[begin.acks], messages });
      // An answer has the offset of the first record in its partition; the others follow it. No broker answers to acks=0.
      const next = Object.fromEntries((begin.acks === "0" ? [] : answers).map((one) => [one.partition, Number(one.baseOffset)]));
      const offset = messages.map(({ partition }) => (partition in next ? next[partition]++ : null));
      tell("outcome", { outcome: "ok", seq: seqs, offset });
    } catch (error) {
      // An earlier attempt may be in the log: in doubt.
      tell("outcome", { outcome: "info", seq: seqs, error: String(error) });
    }
  };
  while (true) {
    const order = await next();
    if (order.order === "produce") {
      const sending = send(Array.from({ length: order.count }, (_, step) => order.first_seq + step));
      open.add(sending);
      sending.finally(() => open.delete(sending));
    }
    if (order.order === "flush" || order.order === "leave") await Promise.all(open);
    if (order.order === "flush") tell("flushed");
    if (order.order === "leave") return;
  }
}

async function consume() {
  // kafkajs reads as a member of a group only: what it reads anew after a rebalance has a new name.
  const consumer = kafka.consumer({ groupId: `${begin.client_id}-${process.pid}`, maxWaitTimeInMs: 100 });
  let joined = 0;
  consumer.on(consumer.events.GROUP_JOIN, () => joined++ && tell("assigned"));
  await consumer.connect();
  await consumer.subscribe({ topic: begin.topic, fromBeginning: true });
  await consumer.run({
    autoCommit: false,
    eachBatch: async ({ batch: { partition, messages } }) => {
      const read = messages.map((one) => decode(one.headers?.["kafka-chaos-id"] ?? one.value));
      const [partitions, offset] = [messages.map(() => partition), messages.map((one) => Number(one.offset))];
      tell("read", { partition: partitions, offset, producer_id: read.map(([id]) => id), seq: read.map(([, seq]) => seq) });
    },
  });
  for (const [partition, offset] of Object.entries(begin.start_offsets)) {
    consumer.seek({ topic: begin.topic, partition: Number(partition), offset: String(offset) });
  }
  tell("ready", { client: "my service", version: "1" });
  while ((await next()).order !== "leave");
  await consumer.disconnect();
}

await (begin.role === "producer" ? produce() : consume());
process.exit(0);

// A client that speaks the client protocol of kafka-chaos: producer and consumer, with Kafka's Java client and org.json.

import java.io.*;
import java.nio.ByteBuffer;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;
import org.apache.kafka.common.utils.AppInfoParser;
import org.json.JSONObject;

public class Example {
    static final PrintStream OUT = System.out;
    static final BlockingQueue<JSONObject> ORDERS = new LinkedBlockingQueue<>();
    static JSONObject begin;

    static synchronized void tell(String event, Object... values) {
        JSONObject line = new JSONObject().put("event", event);
        for (int i = 0; i < values.length; i += 2) line.put((String) values[i], values[i + 1]);
        OUT.println(line);
        OUT.flush();
    }

    public static void main(String[] args) throws Exception {
        System.setOut(System.err); // standard output is for events alone
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        begin = new JSONObject(in.readLine());
        new Thread(() -> {
            try {
                for (String line = in.readLine(); line != null; line = in.readLine()) ORDERS.add(new JSONObject(line));
            } catch (IOException ended) { }
            Runtime.getRuntime().halt(130); // nobody gives orders any more
        }).start();
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> { // SIGTERM is as the order to leave
            ORDERS.add(new JSONObject().put("order", "leave"));
            try { main.join(); } catch (InterruptedException ended) { }
        }));
        if (begin.getString("role").equals("producer")) produce(); else consume();
        Runtime.getRuntime().halt(0);
    }

    static Properties configs(Object... values) {
        Properties configs = new Properties();
        for (int i = 0; i < values.length; i += 2) configs.put(values[i], values[i + 1].toString());
        configs.put("bootstrap.servers", begin.getString("bootstrap_servers"));
        configs.put("client.id", begin.getString("client_id"));
        return configs;
    }

    static void produce() throws Exception {
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(configs(
            "acks", begin.get("acks"), "enable.idempotence", begin.get("idempotence"),
            "max.in.flight.requests.per.connection", begin.get("max_in_flight"), "linger.ms", begin.get("linger_ms"),
            "request.timeout.ms", Math.min(30_000, begin.getInt("delivery_timeout_ms") / 2),
            "delivery.timeout.ms", begin.get("delivery_timeout_ms")), new ByteArraySerializer(), new ByteArraySerializer());
        tell("ready", "client", "my service", "version", AppInfoParser.getVersion());
        AtomicLong sent = new AtomicLong(), known = new AtomicLong();
        while (true) {
            JSONObject order = ORDERS.take();
            String what = order.getString("order");
            if (what.equals("produce")) {
                long first = order.getLong("first_seq");
                for (long seq = first; seq < first + order.getLong("count"); seq++) {
                    long number = seq;
                    sent.incrementAndGet();
                    int partition = begin.getInt("first_partition") + (int) (seq % begin.getInt("partitions"));
                    producer.send(new ProducerRecord<>(begin.getString("topic"), partition, null, identity(seq)), (at, error) -> {
                        if (error != null) tell("outcome", "outcome", "info", "seq", List.of(number), "error", error.toString());
                        else tell("outcome", "outcome", "ok", "seq", List.of(number),
                            "offset", Collections.singletonList(at.hasOffset() ? (Object) at.offset() : JSONObject.NULL));
                        known.incrementAndGet();
                    });
                }
            } else if (what.equals("flush") || what.equals("leave")) {
                producer.flush();
                while (known.get() < sent.get()) Thread.sleep(5);
                if (what.equals("leave")) return;
                tell("flushed");
            }
        }
    }

    static void consume() {
        List<TopicPartition> all = new ArrayList<>();
        for (int i = 0; i < begin.getInt("partitions"); i++) all.add(new TopicPartition(begin.getString("topic"), i));
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(configs("auto.offset.reset", "none",
            "enable.auto.commit", false), new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.assign(all);
        for (TopicPartition one : all)
            consumer.seek(one, begin.getJSONObject("start_offsets").optLong("" + one.partition(), 0));
        tell("ready", "client", "my service", "version", AppInfoParser.getVersion());
        for (JSONObject order = null; order == null || !order.getString("order").equals("leave"); order = ORDERS.poll()) {
            List<Object> partition = new ArrayList<>(), offset = new ArrayList<>(), id = new ArrayList<>(), seq = new ArrayList<>();
            try {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(100))) {
                    var header = record.headers().lastHeader("kafka-chaos-id");
                    long[] identity = identity(header == null ? record.value() : header.value());
                    partition.add(record.partition());
                    offset.add(record.offset());
                    id.add(identity[0]);
                    seq.add(identity[1]);
                }
            } catch (InvalidOffsetException lost) { // what was read is gone: read anew, under a new name
                consumer.seekToBeginning(all);
                tell("assigned");
            }
            if (!seq.isEmpty()) tell("read", "partition", partition, "offset", offset, "producer_id", id, "seq", seq);
        }
    }

    static int checksum(byte[] value) {
        CRC32 crc = new CRC32();
        crc.update(begin.getString("lane").getBytes());
        crc.update(value, 4, value.length - 4);
        return (int) crc.getValue();
    }

    static byte[] identity(long seq) {
        ByteBuffer value = ByteBuffer.allocate(begin.getInt("record_size"));
        value.putInt(0).put("KC01".getBytes()).putInt(begin.getInt("producer_id")).putLong(seq);
        return value.putInt(0, checksum(value.array())).array();
    }

    static long[] identity(byte[] value) {
        if (value == null || value.length < 20 || !new String(value, 4, 4).equals("KC01")) return new long[] {-1, -1};
        ByteBuffer read = ByteBuffer.wrap(value);
        return read.getInt(0) == checksum(value) ? new long[] {read.getInt(8), read.getLong(12)} : new long[] {-1, -1};
    }
}

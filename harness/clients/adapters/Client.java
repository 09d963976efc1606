// Kafka's Java client as a process that speaks the client protocol (docs/guides/own-client.md).

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.zip.CRC32;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.InvalidOffsetException;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.json.JSONObject;

public final class Client {
    private static final byte[] MAGIC = "KC01".getBytes(StandardCharsets.US_ASCII);
    private static final int IDENTITY_BYTES = 20;
    private static final long TOLD_EVERY_MS = 20;
    private static final PrintStream OUT = new PrintStream(new FileOutputStream(FileDescriptor.out), false);
    static final BlockingQueue<JSONObject> ORDERS = new LinkedBlockingQueue<>();
    private static final String LEAVE = "{\"order\":\"leave\"}";

    static void tell(String line) {
        synchronized (OUT) {
            OUT.print(line + "\n");
            OUT.flush();
        }
    }

    static void tell(JSONObject event) {
        tell(event.toString());
    }

    public static void main(String[] arguments) throws Exception {
        System.setOut(System.err);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        JSONObject begin = new JSONObject(orders.readLine());
        Thread listening = new Thread(() -> listen(orders));
        listening.setDaemon(true);
        listening.start();
        Thread main = Thread.currentThread();
        // On SIGTERM, the client leaves in order, and only then does the process end.
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            ORDERS.add(new JSONObject(LEAVE));
            try {
                main.join();
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        }));
        try {
            String role = begin.getString("role");
            if (role.equals("producer")) {
                produce(begin);
            } else if (role.equals("member")) {
                Runtime.getRuntime().halt(Member.run(begin));
            } else if (role.equals("sharer")) {
                // The class is loaded by its name, since it is compiled only with 4.2 and later: earlier clients have no
                // share consumers for production.
                Object code = Class.forName("Sharer").getDeclaredMethod("run", JSONObject.class).invoke(null, begin);
                Runtime.getRuntime().halt((Integer) code);
            } else {
                consume(begin);
            }
        } catch (Exception raised) {
            Throwable error = raised instanceof InvocationTargetException ? raised.getCause() : raised;
            error.printStackTrace();
            tell(new JSONObject().put("event", "error").put("text", error.toString()));
            Runtime.getRuntime().halt(70);
        }
        Runtime.getRuntime().halt(0);
    }

    private static void listen(BufferedReader orders) {
        try {
            String line;
            while ((line = orders.readLine()) != null) {
                ORDERS.add(new JSONObject(line));
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
        // The harness has ended, so this process ends, too.
        Runtime.getRuntime().halt(130);
    }

    // The library's version, from its resource file. The class that reads this file has moved in 4.4.
    private static String version() {
        Properties said = new Properties();
        try (InputStream content = KafkaProducer.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            said.load(content);
        } catch (IOException unread) {
            throw new IllegalStateException(unread);
        }
        return said.getProperty("version");
    }

    static void ready() {
        tell(new JSONObject().put("event", "ready").put("client", "java").put("version", version()));
    }

    static void notice(String text) {
        tell(new JSONObject().put("event", "notice").put("text", text));
    }

    static String named(Throwable error) {
        return error.getClass().getSimpleName();
    }

    static Properties configs(JSONObject begin, Map<String, Object> settings) {
        Properties configs = new Properties();
        settings.forEach((key, value) -> configs.put(key, value.toString()));
        begin.getJSONObject("configs").toMap().forEach((key, value) -> configs.put(key, value.toString()));
        configs.put("bootstrap.servers", begin.getString("bootstrap_servers"));
        configs.put("client.id", begin.getString("client_id"));
        return configs;
    }

    // The outcomes of records, gathered from the client's thread and told to the harness in batches.
    private static final class Outcomes {
        private StringBuilder seqs = new StringBuilder();
        private StringBuilder offsets = new StringBuilder();
        private Map<String, List<Long>> failed = new TreeMap<>();
        private final AtomicLong known = new AtomicLong();
        private final Object telling = new Object();

        synchronized void acknowledged(long seq, long offset) {
            seqs.append(seqs.length() > 0 ? "," : "").append(seq);
            offsets.append(offsets.length() > 0 ? "," : "").append(offset < 0 ? "null" : Long.toString(offset));
            known.incrementAndGet();
        }

        // Told as `info`: the error does not say what earlier attempts left in the log.
        synchronized void failed(long seq, Exception error) {
            failed.computeIfAbsent(error.getClass().getSimpleName() + ": " + error.getMessage(), key -> new ArrayList<>())
                .add(seq);
            known.incrementAndGet();
        }

        // One thread at a time tells. When this returns, every outcome that was known before the call is told.
        void tellAll() {
            synchronized (telling) {
                tellKnown();
            }
        }

        private void tellKnown() {
            String done = null;
            Map<String, List<Long>> lost;
            synchronized (this) {
                if (seqs.length() > 0) {
                    done = "{\"event\":\"outcome\",\"outcome\":\"ok\",\"seq\":[" + seqs + "],\"offset\":[" + offsets + "]}";
                    seqs = new StringBuilder();
                    offsets = new StringBuilder();
                }
                lost = failed;
                failed = new TreeMap<>();
            }
            // Failures are told first: after a failure, the producer may have renewed its epoch and written later records with it.
            lost.forEach((error, records) -> tell(new JSONObject().put("event", "outcome").put("outcome", "info")
                .put("seq", records).put("error", error)));
            if (done != null) {
                tell(done);
            }
        }
    }

    private static void produce(JSONObject begin) throws Exception {
        String topic = begin.getString("topic");
        String lane = begin.getString("lane");
        boolean answered = !begin.getString("acks").equals("0");
        boolean transactional = !begin.isNull("transactional_id");
        Map<String, Object> settings = new TreeMap<>(Map.of(
            "acks", begin.getString("acks"),
            "enable.idempotence", begin.getBoolean("idempotence"),
            "max.in.flight.requests.per.connection", begin.getInt("max_in_flight"),
            "linger.ms", begin.getInt("linger_ms"),
            "request.timeout.ms", Math.min(30_000, begin.getInt("delivery_timeout_ms") / 2),
            "delivery.timeout.ms", begin.getInt("delivery_timeout_ms"),
            "max.block.ms", begin.getInt("delivery_timeout_ms")));
        if (transactional) {
            settings.put("transactional.id", begin.getString("transactional_id"));
            settings.put("transaction.timeout.ms", begin.getInt("transaction_timeout_ms"));
        }
        Properties configs = configs(begin, settings);
        JSONObject given = begin.getJSONObject("configs");
        if ((given.has("request.timeout.ms") || given.has("linger.ms")) && !given.has("delivery.timeout.ms")) {
            // The client refuses a time for delivery that is shorter than those two together: Kafka's default is not.
            configs.remove("delivery.timeout.ms");
        }
        Outcomes outcomes = new Outcomes();
        KafkaProducer<byte[], byte[]> producer =
            new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer());
        if (transactional) {
            insist(producer::initTransactions);
        }
        ready();
        // Another thread tells the outcomes, since `send` may make the main thread wait for metadata.
        Thread telling = new Thread(() -> {
            try {
                while (true) {
                    Thread.sleep(TOLD_EVERY_MS);
                    outcomes.tellAll();
                }
            } catch (InterruptedException ended) {
                Thread.currentThread().interrupt();
            }
        });
        telling.setDaemon(true);
        telling.start();
        int first = begin.getInt("first_partition");
        int partitions = begin.getInt("partitions");
        int producerId = begin.getInt("producer_id");
        int size = begin.getInt("record_size");
        byte[] named = lane.getBytes(StandardCharsets.UTF_8);
        long sent = 0;
        while (true) {
            JSONObject order = ORDERS.take();
            String what = order.getString("order");
            if (what.equals("produce")) {
                long from = order.getLong("first_seq");
                int count = order.getInt("count");
                sent += count;
                for (long seq = from; seq < from + count; seq++) {
                    byte[] value = encode(named, producerId, seq, size);
                    send(producer, new ProducerRecord<>(topic, first + (int) (seq % partitions), null, value), seq,
                        answered, outcomes);
                }
            } else if (what.equals("flush") || what.equals("leave")) {
                producer.flush();
                while (outcomes.known.get() < sent) {
                    Thread.sleep(TOLD_EVERY_MS);
                }
                outcomes.tellAll();
                if (what.equals("leave")) {
                    producer.close(Duration.ofSeconds(5));
                    return;
                }
                tell("{\"event\":\"flushed\"}");
            } else {
                JSONObject done = new JSONObject().put("did", what);
                try {
                    if (what.equals("begin_transaction")) {
                        producer.beginTransaction();
                        continue;
                    }
                    insist(what.equals("commit") ? producer::commitTransaction : producer::abortTransaction);
                    // All callbacks have run by now, even the callback of a send that was refused.
                    outcomes.tellAll();
                    tell(done.put("event", "transaction"));
                } catch (KafkaException | IllegalStateException error) {
                    String text = error.getClass().getSimpleName() + ": " + error.getMessage();
                    // If no transaction was begun, its end fails, and tells the harness.
                    String event = what.equals("begin_transaction") ? "notice" : "transaction";
                    tell(done.put("event", event).put(event.equals("notice") ? "text" : "error", text));
                }
            }
        }
    }

    // Repeats a call that times out. The client then goes on with the same operation.
    private static void insist(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException again) {
                again.printStackTrace();
            }
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, ProducerRecord<byte[], byte[]> record, long seq,
            boolean answered, Outcomes outcomes) {
        try {
            producer.send(record, (metadata, error) -> {
                if (error != null) {
                    outcomes.failed(seq, error);
                } else {
                    outcomes.acknowledged(seq, answered && metadata.hasOffset() ? metadata.offset() : -1);
                }
            });
        } catch (RuntimeException error) {
            outcomes.failed(seq, error);
        }
    }

    private static void consume(JSONObject begin) {
        boolean isolated = !begin.isNull("isolation");
        Properties configs = configs(begin, Map.of("enable.auto.commit", false, "auto.offset.reset", "none",
            "isolation.level", isolated ? begin.getString("isolation") : "read_uncommitted"));
        JSONObject starts = begin.getJSONObject("start_offsets");
        List<TopicPartition> places = new ArrayList<>();
        for (int number = 0; number < begin.getInt("partitions"); number++) {
            places.add(new TopicPartition(begin.getString("topic"), number));
        }
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(places);
            toStart(consumer, places, starts);
            ready();
            Map<Integer, Long> stands = new TreeMap<>();
            while (true) {
                JSONObject order = ORDERS.poll();
                if (order != null && order.getString("order").equals("leave")) {
                    return;
                }
                try {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(100));
                    if (!records.isEmpty()) {
                        tellRead(begin.getString("lane"), records);
                    } else if (isolated) {
                        tellPositions(consumer, places, stands);
                    }
                } catch (InvalidOffsetException lost) {
                    toStart(consumer, places, starts);
                    tell("{\"event\":\"assigned\"}");
                }
            }
        }
    }

    // Tells positions, which also pass markers and the records of aborted transactions.
    private static void tellPositions(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> places,
            Map<Integer, Long> stands) {
        List<List<Long>> offsets = new ArrayList<>();
        for (TopicPartition place : places) {
            try {
                long position = consumer.position(place, Duration.ofMillis(100));
                if (!Long.valueOf(position).equals(stands.put(place.partition(), position))) {
                    offsets.add(List.of((long) place.partition(), position));
                }
            } catch (TimeoutException unknown) {
                stands.remove(place.partition());
            }
        }
        if (!offsets.isEmpty()) {
            tell(new JSONObject().put("event", "at_end").put("offsets", offsets));
        }
    }

    private static void toStart(KafkaConsumer<byte[], byte[]> consumer, List<TopicPartition> places, JSONObject starts) {
        for (TopicPartition place : places) {
            long start = starts.optLong(Integer.toString(place.partition()), 0);
            if (start > 0) {
                consumer.seek(place, start);
            } else {
                consumer.seekToBeginning(List.of(place));
            }
        }
    }

    private static void tellRead(String lane, ConsumerRecords<byte[], byte[]> records) {
        StringBuilder partition = new StringBuilder();
        StringBuilder offset = new StringBuilder();
        StringBuilder epoch = new StringBuilder();
        StringBuilder producerId = new StringBuilder();
        StringBuilder seq = new StringBuilder();
        String comma = "";
        for (ConsumerRecord<byte[], byte[]> record : records) {
            long[] identity = identity(lane, record);
            partition.append(comma).append(record.partition());
            offset.append(comma).append(record.offset());
            epoch.append(comma).append(record.leaderEpoch().map(String::valueOf).orElse("null"));
            producerId.append(comma).append(identity[0]);
            seq.append(comma).append(identity[1]);
            comma = ",";
        }
        tell("{\"event\":\"read\",\"partition\":[" + partition + "],\"offset\":[" + offset + "],\"leader_epoch\":[" + epoch
            + "],\"producer_id\":[" + producerId + "],\"seq\":[" + seq + "]}");
    }

    static long[] identity(String lane, ConsumerRecord<byte[], byte[]> record) {
        Header header = record.headers().lastHeader("kafka-chaos-id");
        return decode(lane, header == null ? record.value() : header.value());
    }

    private static int checksum(byte[] lane, byte[] value) {
        CRC32 crc = new CRC32();
        crc.update(lane);
        crc.update(value, 4, value.length - 4);
        return (int) crc.getValue();
    }

    static byte[] encode(byte[] lane, int producerId, long seq, int size) {
        ByteBuffer value = ByteBuffer.allocate(size);
        value.position(4);
        value.put(MAGIC).putInt(producerId).putLong(seq);
        value.putInt(0, checksum(lane, value.array()));
        return value.array();
    }

    private static long[] decode(String lane, byte[] value) {
        if (value != null && value.length >= IDENTITY_BYTES) {
            ByteBuffer read = ByteBuffer.wrap(value);
            boolean isMagic = read.getInt(4) == ByteBuffer.wrap(MAGIC).getInt();
            if (isMagic && read.getInt(0) == checksum(lane.getBytes(StandardCharsets.UTF_8), value)) {
                return new long[] {read.getInt(8), read.getLong(12)};
            }
        }
        return new long[] {-1, -1};
    }

    private Client() {
    }
}

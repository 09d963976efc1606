// A member of a consumer group, or of a consume-transform-produce loop (with `output`). harness/workload/groups/member.py
// and loop.py do the same with librdkafka and give the reasons. The configs in `begin` have librdkafka's names.

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.TreeMap;
import java.util.TreeSet;

import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.json.JSONArray;
import org.json.JSONObject;

final class Member implements ConsumerRebalanceListener {
    private static final int REPLACE_ME = 3;
    private static final int KILLED = 137;
    private static final long LEAVES_WITHIN_NS = 20_000_000_000L;
    private static final long TICK_MS = 5;
    private static final Duration COMMITS_WITHIN = Duration.ofSeconds(20);
    private static final Map<String, String> RENAMED = Map.of(
        "fetch.wait.max.ms", "fetch.max.wait.ms",
        "topic.metadata.refresh.interval.ms", "metadata.max.age.ms",
        "message.timeout.ms", "delivery.timeout.ms");
    private static final List<String> UNKNOWN = List.of("enable.partition.eof", "log_level");
    private static final Map<String, String> ASSIGNORS = Map.of(
        "range", "org.apache.kafka.clients.consumer.RangeAssignor",
        "roundrobin", "org.apache.kafka.clients.consumer.RoundRobinAssignor",
        "cooperative-sticky", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");

    private final JSONObject begin;
    private final String topic;
    private final String commits;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final TreeSet<Integer> held = new TreeSet<>();
    private final Map<Integer, Long> stands = new HashMap<>();
    private Outputs outputs;
    private String name = "";
    private int names;  // how many names this member has had: it gets a new one with each assignment
    private int numbers;  // how many commits were asked for
    private long lastNs;
    // By partition, the last record that was read under this name.
    private final Map<Integer, ConsumerRecord<byte[], byte[]>> last = new HashMap<>();
    private int freezes;
    private boolean crashes;
    private long leftNs;

    private Member(JSONObject begin) {
        this.begin = begin;
        topic = begin.getString("topic");
        commits = begin.getString("commits");
        Properties configs = translated(begin.getJSONObject("configs"));
        int most = 500;
        if (!begin.isNull("output")) {
            JSONObject output = begin.getJSONObject("output");
            most = output.getString("offsets").equals("transaction") ? output.getInt("size") : 100;
        }
        if (begin.isNull("output")) {
            configs.putIfAbsent("max.poll.records", String.valueOf(most));
        } else {
            configs.put("max.poll.records", String.valueOf(most));  // A transaction has the records of one poll.
        }
        consumer = new KafkaConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    // Returns the exit code: 0 if the member left in order, 3 if one of its clients has failed fatally.
    static int run(JSONObject begin) throws Exception {
        Member member = new Member(begin);
        Client.ready();
        try {
            if (!begin.isNull("output")) {
                member.outputs = member.new Outputs(begin.getJSONObject("output"));
            }
            member.consumer.subscribe(List.of(member.topic), member);
            while (!member.leaves()) {
                member.step();
            }
            if (member.outputs != null) {
                member.outputs.close();
            }
            member.leave();
            return 0;
        } catch (Lost lost) {
            Client.notice("its " + lost.getMessage());
            member.leave();
            return REPLACE_ME;
        }
    }

    private static final class Lost extends Exception {
        private static final long serialVersionUID = 1L;

        Lost(String what, Exception error) {
            super(what + " is lost: " + Client.named(error));
        }
    }

    private static Properties translated(JSONObject configs) {
        Properties found = new Properties();
        for (String key : configs.keySet()) {
            String value = configs.get(key).toString();
            if (key.equals("partition.assignment.strategy")) {
                value = ASSIGNORS.getOrDefault(value, value);
            }
            String name = RENAMED.getOrDefault(key, key);
            // A config under the client's own name goes before one under librdkafka's.
            if (!UNKNOWN.contains(key) && (name.equals(key) || !configs.has(name))) {
                found.put(name, value);
            }
        }
        return found;
    }

    private static JSONObject event(String kind) {
        return new JSONObject().put("event", kind).put("ns", System.nanoTime());
    }

    private void hear() {
        JSONObject order;
        while ((order = Client.ORDERS.poll()) != null) {
            String what = order.getString("order");
            if (what.equals("freeze")) {
                freezes++;
            } else if (what.equals("crash")) {
                crashes = true;
            } else if (what.equals("leave") && leftNs == 0) {
                leftNs = System.nanoTime();
            }
        }
    }

    private boolean leaves() {
        hear();
        return leftNs != 0;
    }

    private boolean givesUp() {
        return leaves() && System.nanoTime() - leftNs > LEAVES_WITHIN_NS;
    }

    private void leave() {
        try {
            consumer.close(Duration.ofSeconds(5));
        } catch (KafkaException error) {
            Client.notice("close: " + Client.named(error));
        }
        taken(new TreeSet<>(held));
    }

    private void step() throws Exception {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        try {
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
        } catch (KafkaException error) {
            if (!(error instanceof RetriableException)) {
                throw new Lost("consumer", error);
            }
            Client.notice(Client.named(error));
        }
        for (ConsumerRecord<byte[], byte[]> record : records) {
            if (wasReset(record, last.get(record.partition()))) {
                begins(new TreeSet<>(held));
            }
            last.put(record.partition(), record);
        }
        boolean again = false;
        if (!records.isEmpty()) {
            hear();
            if (freezes > 0) {
                freezes--;
                Client.tell(new JSONObject().put("event", "changes").put("change", "freezes"));
                Thread.sleep((long) (1000 * begin.getDouble("freeze_seconds")));
                Client.tell(new JSONObject().put("event", "changes").put("change", "thaws"));
            }
            again = outputs == null ? process(records) : outputs.handle(records);
        }
        if (again) {
            readAgain(records);
        } else {
            tellPositions();
        }
    }

    // Whether the client has reset the position by itself: to the start of the log or, after a truncation, to its end. New
    // records then have a later leader epoch. In doubt, a position that went back counts as reset.
    private static boolean wasReset(ConsumerRecord<byte[], byte[]> record, ConsumerRecord<byte[], byte[]> before) {
        if (before == null || record.offset() > before.offset()) {
            return false;
        }
        boolean hasEpochs = record.leaderEpoch().isPresent() && before.leaderEpoch().isPresent();
        return record.offset() == 0 || !hasEpochs || record.leaderEpoch().get() > before.leaderEpoch().get();
    }

    private void tellPositions() {
        JSONArray offsets = new JSONArray();
        for (int partition : held) {
            try {
                long position = consumer.position(new TopicPartition(topic, partition), Duration.ofMillis(100));
                if (!Long.valueOf(position).equals(stands.put(partition, position))) {
                    offsets.put(List.of(partition, position));
                }
            } catch (KafkaException | IllegalStateException unknown) {
                // The position is unknown until the next poll.
                stands.remove(partition);
            }
        }
        if (offsets.length() > 0) {
            Client.tell(new JSONObject().put("event", "at_end").put("offsets", offsets));
        }
    }

    // Returns whether the batch must be read again.
    private boolean process(List<ConsumerRecord<byte[], byte[]>> records) {
        boolean before = commits.equals("before");
        if (before && !commit(records)) {
            return true;
        }
        if (crashes) {
            read(records.subList(0, beforeCrash(records.size(), before)));
            crash();
        }
        read(records);
        if (commits.equals("after")) {
            commit(records);
        }
        return false;
    }

    private static int beforeCrash(int batch, boolean isCommitted) {
        return isCommitted ? batch / 2 : (batch + 1) / 2;
    }

    private void crash() {
        Client.notice("crashes amid a batch");
        Runtime.getRuntime().halt(KILLED);
    }

    private List<long[]> identities(List<ConsumerRecord<byte[], byte[]>> records) {
        List<long[]> found = new ArrayList<>();
        records.forEach(record -> found.add(Client.identity(begin.getString("lane"), record)));
        return found;
    }

    private void read(List<ConsumerRecord<byte[], byte[]>> records) {
        long firstNs = Math.max(lastNs + 1, System.nanoTime());
        lastNs = firstNs + records.size() - 1;
        JSONArray partition = new JSONArray();
        JSONArray offset = new JSONArray();
        JSONArray producerId = new JSONArray();
        JSONArray seq = new JSONArray();
        JSONArray epoch = new JSONArray();
        List<long[]> identities = identities(records);
        for (int at = 0; at < records.size(); at++) {
            ConsumerRecord<byte[], byte[]> record = records.get(at);
            partition.put(record.partition());
            offset.put(record.offset());
            producerId.put(identities.get(at)[0]);
            seq.put(identities.get(at)[1]);
            epoch.put(record.leaderEpoch().<Object>map(one -> one).orElse(JSONObject.NULL));
        }
        Client.tell(new JSONObject().put("event", "read").put("consumer", name).put("ns", firstNs)
            .put("partition", partition).put("offset", offset).put("producer_id", producerId).put("seq", seq)
            .put("leader_epoch", epoch));
    }

    private Map<TopicPartition, OffsetAndMetadata> next(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> found = new HashMap<>();
        records.forEach(one ->
            found.put(new TopicPartition(topic, one.partition()), new OffsetAndMetadata(one.offset() + 1)));
        return found;
    }

    private boolean commit(List<ConsumerRecord<byte[], byte[]>> records) {
        Map<TopicPartition, OffsetAndMetadata> offsets = next(records);
        int number = asks(offsets, null, null);
        try {
            consumer.commitSync(offsets, COMMITS_WITHIN);
        } catch (KafkaException error) {
            learns(number, offsets, error);
            return false;
        }
        learns(number, offsets, null);
        return true;
    }

    private int asks(Map<TopicPartition, OffsetAndMetadata> offsets, Object producerId, Object transaction) {
        TreeMap<Integer, Long> sorted = new TreeMap<>();
        offsets.forEach((place, offset) -> sorted.put(place.partition(), offset.offset()));
        JSONArray told = new JSONArray();
        sorted.forEach((partition, offset) -> told.put(List.of(partition, offset)));
        Client.tell(event("commit").put("number", numbers).put("consumer", name).put("offsets", told)
            .put("producer_id", producerId == null ? JSONObject.NULL : producerId)
            .put("transaction", transaction == null ? JSONObject.NULL : transaction));
        return numbers++;
    }

    // Tells what became of a commit. An error is told as `info`: an attempt whose answer was lost may have taken effect.
    private void learns(int number, Map<TopicPartition, OffsetAndMetadata> offsets, Exception error) {
        JSONArray errors = new JSONArray();
        if (error != null) {
            offsets.keySet().forEach(place -> errors.put(List.of(place.partition(), "info", Client.named(error))));
        }
        Client.tell(event("committed").put("number", number).put("errors", errors));
    }

    private void readAgain(List<ConsumerRecord<byte[], byte[]>> records) {
        TreeMap<Integer, Long> first = new TreeMap<>();
        records.forEach(record -> first.putIfAbsent(record.partition(), record.offset()));
        first.forEach((partition, offset) -> {
            stands.remove(partition);
            if (held.contains(partition)) {
                try {
                    consumer.seek(new TopicPartition(topic, partition), offset);
                } catch (IllegalStateException taken) {
                    // The partition was taken away meanwhile: its next owner reads the batch again.
                    Client.notice("seek: " + taken.getMessage());
                }
            }
        });
        begins(new TreeSet<>(held));
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        TreeSet<Integer> kept = new TreeSet<>(held);
        partitions.forEach(place -> held.add(place.partition()));
        begins(kept);
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        TreeSet<Integer> gone = new TreeSet<>();
        partitions.forEach(place -> gone.add(place.partition()));
        taken(gone);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        onPartitionsRevoked(partitions);
    }

    private void begins(TreeSet<Integer> ended) {
        long now = System.nanoTime();
        ends(ended, now);
        stands.clear();
        last.clear();
        names++;
        name = begin.getString("name") + "-" + names;
        if (!held.isEmpty()) {
            int generation = consumer.groupMetadata().generationId();
            String member = consumer.groupMetadata().memberId();
            Client.tell(event("assigned").put("consumer", name).put("ns", now)
                .put("member", member.isEmpty() ? begin.getString("name") : member)
                .put("generation", generation < 0 ? JSONObject.NULL : generation)
                .put("partitions", new JSONArray(held)));
        }
    }

    private void taken(TreeSet<Integer> partitions) {
        partitions.retainAll(held);
        ends(partitions, System.nanoTime());
        held.removeAll(partitions);
        stands.keySet().removeAll(partitions);
    }

    private void ends(TreeSet<Integer> partitions, long now) {
        if (!partitions.isEmpty()) {
            Client.tell(event("given_back").put("consumer", name).put("ns", now).put("partitions", new JSONArray(partitions)));
        }
    }

    // The loop's producer: tells what it sends, from which records it made that, and the outcomes.
    private final class Outputs {
        private static final int RESERVED = 256;

        private final JSONObject output;
        private final String lane;
        private final String offsets;
        private final int producerId;
        private final KafkaProducer<byte[], byte[]> producer;
        private final Random chance;
        private final Object initialisedNs;
        private final List<Object[]> known = new ArrayList<>();
        private long sent;
        private long reserved;
        private int open;
        private boolean failed;
        private int transactions;

        Outputs(JSONObject output) throws Lost {
            this.output = output;
            lane = output.getString("lane");
            offsets = output.getString("offsets");
            producerId = output.getInt("producer_id");
            chance = new Random(output.getString("seed").hashCode());
            Properties configs = translated(output.getJSONObject("configs"));
            long delivery = Long.parseLong(configs.getProperty("delivery.timeout.ms"));
            configs.putIfAbsent("request.timeout.ms", String.valueOf(Math.min(30_000, delivery / 2)));
            configs.putIfAbsent("max.block.ms", String.valueOf(Math.min(15_000, delivery)));
            producer = new KafkaProducer<>(configs, new ByteArraySerializer(), new ByteArraySerializer());
            if (isTransactional()) {
                insist(producer::initTransactions);
                initialisedNs = System.nanoTime();
            } else {
                initialisedNs = JSONObject.NULL;
            }
        }

        private boolean isTransactional() {
            return offsets.equals("transaction");
        }

        private void insist(Runnable call) throws Lost {
            while (true) {
                try {
                    call.run();
                    return;
                } catch (TimeoutException error) {
                    if (givesUp()) {
                        throw new Lost("producer", error);
                    }
                } catch (KafkaException | IllegalStateException error) {
                    throw new Lost("producer", error);
                }
            }
        }

        boolean handle(List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
            if (isTransactional()) {
                return inTransaction(records);
            }
            boolean before = offsets.equals("before");
            if (before && !commit(records)) {
                return true;
            }
            if (!make(records)) {
                // A batch whose offsets were committed before can't be read again.
                return !before;
            }
            if (!before) {
                commit(records);
            }
            return false;
        }

        private boolean make(List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
            if (crashes) {
                List<ConsumerRecord<byte[], byte[]>> done =
                    records.subList(0, beforeCrash(records.size(), offsets.equals("before")));
                read(done);
                send(identities(done));
                deliver();
                crash();
            }
            read(records);
            send(identities(records));
            return deliver();
        }

        private void send(List<long[]> sources) throws Exception {
            long first = sent;
            sent += sources.size();
            reserve();
            JSONArray partition = new JSONArray();
            for (long seq = first; seq < sent; seq++) {
                partition.put(seq % output.getInt("partitions"));
            }
            Client.tell(event("sent").put("first_seq", first).put("partition", partition).put("sources", new JSONArray(sources))
                .put("transaction", isTransactional() ? transactions - 1 : JSONObject.NULL));
            synchronized (known) {
                open += sources.size();
            }
            for (long seq = first; seq < sent; seq++) {
                byte[] named = lane.getBytes(StandardCharsets.UTF_8);
                byte[] value = Client.encode(named, producerId, seq, output.getInt("record_size"));
                long one = seq;
                try {
                    producer.send(
                        new ProducerRecord<>(output.getString("topic"), partition.getInt((int) (seq - first)), null, value),
                        (metadata, error) -> settle(one, error == null && metadata.hasOffset() ? metadata.offset() : -1, error));
                } catch (RuntimeException error) {
                    settle(one, -1, error);
                }
            }
        }

        // Writes the sequence numbers to disk before the first of them is sent, since the harness may die.
        private void reserve() throws Exception {
            if (sent > reserved) {
                long count = Math.max(RESERVED, sent - reserved);
                JSONObject entry = new JSONObject().put("lane", lane).put("producer_id", producerId)
                    .put("first_seq", reserved).put("count", count).put("ns", System.nanoTime());
                if (isTransactional()) {
                    entry.put("transactional_id", output.getJSONObject("configs").getString("transactional.id"));
                }
                try (FileOutputStream file = new FileOutputStream(output.getString("run_directory") + "/reservations.jsonl", true)) {
                    file.write((entry + "\n").getBytes(StandardCharsets.UTF_8));
                }
                reserved += count;
            }
        }

        private void settle(long seq, long offset, Exception error) {
            synchronized (known) {
                open--;
                failed |= error != null;
                known.add(new Object[] {seq, offset, System.nanoTime(), error == null ? "" : Client.named(error)});
            }
        }

        private void tellKnown() {
            TreeMap<String, JSONArray[]> found = new TreeMap<>();
            synchronized (known) {
                for (Object[] one : known) {
                    JSONArray[] columns = found.computeIfAbsent((String) one[3],
                        key -> new JSONArray[] {new JSONArray(), new JSONArray(), new JSONArray()});
                    columns[0].put(one[0]);
                    columns[1].put((long) one[1] < 0 ? JSONObject.NULL : one[1]);
                    columns[2].put(one[2]);
                }
                known.clear();
            }
            found.forEach((error, columns) -> Client.tell(new JSONObject().put("event", "outcome")
                .put("outcome", error.isEmpty() ? "ok" : "info").put("error", error.isEmpty() ? JSONObject.NULL : error)
                .put("seq", columns[0]).put("offset", columns[1]).put("ns", columns[2])));
        }

        // Waits for all outcomes; returns whether every record since the last call was acknowledged.
        private boolean deliver() throws InterruptedException {
            while (isOpen() && !givesUp()) {
                Thread.sleep(TICK_MS);
                tellKnown();
            }
            tellKnown();
            boolean good = !failed && !isOpen();
            failed = false;
            return good;
        }

        private boolean isOpen() {
            synchronized (known) {
                return open > 0;
            }
        }

        private boolean inTransaction(List<ConsumerRecord<byte[], byte[]>> records) throws Exception {
            JSONObject row = new JSONObject().put("lane", lane).put("producer_id", producerId)
                .put("transactional_id", output.getJSONObject("configs").getString("transactional.id"))
                .put("initialised_ns", initialisedNs).put("transaction", transactions).put("begin_ns", System.nanoTime());
            insist(producer::beginTransaction);
            transactions++;
            make(records);
            if (chance.nextDouble() < output.getDouble("abort")) {
                abort(row, "aborted", null);
                return true;
            }
            Map<TopicPartition, OffsetAndMetadata> next = next(records);
            int number = asks(next, producerId, transactions - 1);
            Lost lost = null;
            try {
                // Brokers before 2.5 take no generation (KIP-447), and the client fails fatally if it has to name one.
                ConsumerGroupMetadata group = output.getBoolean("names_generation")
                    ? consumer.groupMetadata() : new ConsumerGroupMetadata(consumer.groupMetadata().groupId());
                insist(() -> producer.sendOffsetsToTransaction(next, group));
                learns(number, next, null);
            } catch (Lost refused) {
                learns(number, next, refused);
                lost = refused;
            }
            // Once a commit is asked for, the transaction may be committed, unless its end is learned.
            if (lost == null) {
                try {
                    insist(producer::commitTransaction);
                    ended(row, "committed", null);
                    return false;
                } catch (Lost refused) {
                    lost = refused;
                    abort(row, "info", lost);
                    return true;
                }
            }
            abort(row, "aborted", lost);
            return true;
        }

        // `unknown`: the outcome of the transaction if the abort is refused, too.
        private void abort(JSONObject row, String unknown, Lost cause) throws Exception {
            try {
                insist(producer::abortTransaction);
            } catch (Lost lost) {
                deliverFailed();
                ended(row, unknown, lost);
                throw lost;
            }
            deliver();
            ended(row, "aborted", cause);
        }

        private void deliverFailed() {
            producer.close(Duration.ZERO);
            tellKnown();
        }

        private void ended(JSONObject row, String outcome, Exception error) {
            tellKnown();
            Client.tell(new JSONObject().put("event", "transaction").put("row", row.put("end_ns", System.nanoTime())
                .put("outcome", outcome).put("error", error == null ? JSONObject.NULL : error.getMessage())));
        }

        void close() {
            producer.close(Duration.ofSeconds(5));
            tellKnown();
        }
    }
}

// A member of a share group (KIP-932), with Kafka's Java client since 4.2. It tells the harness which records it was given
// before it acknowledges any of them, and the result of each acknowledgement, as the client's callback reports it. All
// times are of the monotonic clock.

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.GroupIdNotFoundException;
import org.apache.kafka.common.errors.InvalidRecordStateException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.json.JSONArray;
import org.json.JSONObject;

public final class Sharer {
    private static final int REPLACE_ME = 3;
    private static final int KILLED = 137;
    private static final int MOST = 500;
    private static final long REPORTS_EVERY_MS = 500;
    private static final long CONFIGURED_WITHIN_NS = 60_000_000_000L;
    private static final Duration ANSWERED_WITHIN = Duration.ofSeconds(20);

    private final JSONObject begin;
    private final boolean explicit;
    private final Random chance;
    private final KafkaShareConsumer<byte[], byte[]> consumer;
    // By place, the numbers of deliveries that were acknowledged and have no answer yet, the oldest first.
    private final Map<String, Deque<Long>> asked = new HashMap<>();
    private List<ConsumerRecord<byte[], byte[]>> held = new ArrayList<>();
    private final int most;
    private long firstHeld;
    private long numbers;
    // When the last poll that left nothing for later began, and (`askedNs`) the last such poll before it.
    private long drainedNs = System.nanoTime();
    private long askedNs = drainedNs;
    private int freezes;
    private boolean crashes;
    private boolean leaves;

    private Sharer(JSONObject begin) {
        this.begin = begin;
        explicit = begin.getString("acknowledgement").equals("explicit");
        chance = new Random(begin.getString("seed").hashCode());
        Properties configs = Client.configs(begin, Map.of());
        configs.put("group.id", begin.getString("group"));
        configs.put("share.acknowledgement.mode", begin.getString("acknowledgement"));
        configs.putIfAbsent("max.poll.records", String.valueOf(MOST));
        most = Integer.parseInt(configs.getProperty("max.poll.records"));
        consumer = new KafkaShareConsumer<>(configs, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.setAcknowledgementCommitCallback(this::answered);
    }

    // Returns the exit code: 0 if the member left in order, 3 if its client has failed fatally.
    static int run(JSONObject begin) throws Exception {
        Properties configs = Client.configs(begin, Map.of());
        configs.put("client.id", begin.getString("client_id") + "-admin");
        Admin admin = Admin.create(configs);
        configure(admin, begin);
        awaitCoordinator(admin, begin.getString("group"));
        Sharer sharer = new Sharer(begin);
        Client.ready();
        Thread reports = new Thread(() -> report(admin, begin));
        reports.setDaemon(true);
        reports.start();
        sharer.consumer.subscribe(List.of(begin.getString("topic")));
        try {
            while (!sharer.leaves) {
                sharer.step();
            }
        } catch (KafkaException lost) {
            Client.notice("its consumer is lost: " + Client.named(lost));
            sharer.close();
            return REPLACE_ME;
        }
        sharer.acknowledge();
        sharer.close();
        return 0;
    }

    // Sets the configs of the group; every member sets the same.
    private static void configure(Admin admin, JSONObject begin) throws Exception {
        ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, begin.getString("group"));
        Collection<AlterConfigOp> wanted = new ArrayList<>();
        begin.getJSONObject("group_configs").toMap().forEach((key, value) ->
            wanted.add(new AlterConfigOp(new ConfigEntry(key, value.toString()), AlterConfigOp.OpType.SET)));
        long since = System.nanoTime();
        while (true) {
            try {
                admin.incrementalAlterConfigs(Map.of(group, wanted)).all().get();
                return;
            } catch (ExecutionException failed) {
                boolean again = failed.getCause() instanceof RetriableException;
                if (!again || System.nanoTime() - since > CONFIGURED_WITHIN_NS) {
                    throw new IllegalStateException("the group's configs were refused: " + failed.getCause(), failed);
                }
            }
        }
    }

    // Waits for the group's coordinator: a member that joins without one asks for it in two threads without a pause (seen
    // with 4.2.2). On a small machine, several such members keep the brokers so busy that none becomes coordinator.
    private static void awaitCoordinator(Admin admin, String group) throws Exception {
        while (true) {
            try {
                admin.describeShareGroups(List.of(group)).all().get();
                return;
            } catch (ExecutionException failed) {
                if (failed.getCause() instanceof GroupIdNotFoundException) {
                    return;
                }
                Thread.sleep(REPORTS_EVERY_MS);
            }
        }
    }

    // Reports the start offsets of the group that the share coordinator has written. Before it has written any, they are
    // below 0.
    private static void report(Admin admin, JSONObject begin) {
        String group = begin.getString("group");
        List<TopicPartition> places = new ArrayList<>();
        for (int number = 0; number < begin.getInt("partitions"); number++) {
            places.add(new TopicPartition(begin.getString("topic"), number));
        }
        Map<String, ListShareGroupOffsetsSpec> wanted = Map.of(group, new ListShareGroupOffsetsSpec().topicPartitions(places));
        while (true) {
            try {
                Thread.sleep(REPORTS_EVERY_MS);
                long invokeNs = System.nanoTime();
                JSONArray partition = new JSONArray();
                JSONArray offset = new JSONArray();
                JSONArray lag = new JSONArray();
                admin.listShareGroupOffsets(wanted).partitionsToOffsetInfo(group).get(20, TimeUnit.SECONDS)
                    .forEach((place, info) -> {
                        if (info != null && info.startOffset() >= 0) {
                            partition.put(place.partition());
                            offset.put(info.startOffset());
                            lag.put(info.lag().<Object>map(one -> one).orElse(JSONObject.NULL));
                        }
                    });
                if (partition.length() > 0) {
                    Client.tell(new JSONObject().put("event", "starts").put("invoke_ns", invokeNs)
                        .put("complete_ns", System.nanoTime()).put("partition", partition).put("offset", offset).put("lag", lag));
                }
            } catch (InterruptedException ended) {
                return;
            } catch (Exception again) {
                // Brokers are broken on purpose, so this thread asks again.
                again.printStackTrace();
            }
        }
    }

    private void hear() {
        JSONObject order;
        while ((order = Client.ORDERS.poll()) != null) {
            String what = order.getString("order");
            if (what.equals("freeze")) {
                freezes++;
            } else if (what.equals("crash")) {
                crashes = true;
            } else if (what.equals("leave")) {
                leaves = true;
            }
        }
    }

    private void step() throws Exception {
        hear();
        if (leaves) {
            return;
        }
        acknowledge();
        // The client may have asked for a poll's records as early as the beginning of the last poll that left nothing for
        // later. `askedNs` is one such poll earlier: a client that was frozen may poll before its network thread has read
        // what came meanwhile.
        long beganNs = System.nanoTime();
        ConsumerRecords<byte[], byte[]> records;
        try {
            records = consumer.poll(Duration.ofMillis(100));
        } catch (WakeupException woken) {
            return;
        }
        if (!records.isEmpty()) {
            deliver(records);
            hear();
            if (crashes) {
                Client.notice("crashes with records in hand");
                Runtime.getRuntime().halt(KILLED);
            }
            if (freezes > 0) {
                freezes--;
                Client.tell(new JSONObject().put("event", "changes").put("change", "freezes"));
                Thread.sleep((long) (1000 * begin.getDouble("freeze_seconds")));
                Client.tell(new JSONObject().put("event", "changes").put("change", "thaws"));
            }
        }
        if (records.count() < most) {
            askedNs = drainedNs;
            drainedNs = beganNs;
        }
    }

    private void deliver(ConsumerRecords<byte[], byte[]> records) {
        long ns = System.nanoTime();
        JSONArray partition = new JSONArray();
        JSONArray offset = new JSONArray();
        JSONArray producerId = new JSONArray();
        JSONArray seq = new JSONArray();
        JSONArray count = new JSONArray();
        firstHeld = numbers;
        for (ConsumerRecord<byte[], byte[]> record : records) {
            long[] identity = Client.identity(begin.getString("lane"), record);
            held.add(record);
            numbers++;
            partition.put(record.partition());
            offset.put(record.offset());
            producerId.put(identity[0]);
            seq.put(identity[1]);
            count.put((int) record.deliveryCount().orElseThrow());
        }
        Client.tell(new JSONObject().put("event", "delivered").put("number", firstHeld).put("asked_ns", askedNs).put("ns", ns)
            .put("partition", partition).put("offset", offset).put("producer_id", producerId).put("seq", seq)
            .put("delivery_count", count));
    }

    // Tells the harness the acknowledgements before a poll or a commit sends them.
    private void acknowledge() {
        if (held.isEmpty()) {
            return;
        }
        JSONArray kinds = new JSONArray();
        for (int at = 0; at < held.size(); at++) {
            ConsumerRecord<byte[], byte[]> record = held.get(at);
            AcknowledgeType kind = AcknowledgeType.ACCEPT;
            if (explicit) {
                double drawn = chance.nextDouble();
                double release = begin.getDouble("release");
                kind = drawn < release ? AcknowledgeType.RELEASE
                    : drawn < release + begin.getDouble("reject") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
            }
            kinds.put(kind.toString());
            asked.computeIfAbsent(place(record.partition(), record.offset()), key -> new ArrayDeque<>()).add(firstHeld + at);
            if (explicit) {
                consumer.acknowledge(record, kind);
            }
        }
        Client.tell(new JSONObject().put("event", "acknowledges").put("number", firstHeld).put("ns", System.nanoTime())
            .put("acknowledgements", kinds));
        held = new ArrayList<>();
        // In implicit mode, the next poll sends the acknowledgements. The callback gets the answers.
        if (explicit || leaves) {
            consumer.commitSync(ANSWERED_WITHIN);
        }
    }

    private static String place(int partition, long offset) {
        return partition + "/" + offset;
    }

    private void answered(Map<TopicIdPartition, Set<Long>> offsets, Exception error) {
        long ns = System.nanoTime();
        JSONArray told = new JSONArray();
        new TreeMap<Integer, Set<Long>>(byPartition(offsets)).forEach((partition, of) -> of.forEach(offset -> {
            Deque<Long> waiting = asked.get(place(partition, offset));
            if (waiting != null) {
                told.put(waiting.remove());
                if (waiting.isEmpty()) {
                    asked.remove(place(partition, offset));
                }
            }
        }));
        // An error does not say what earlier attempts did. Only this one says that the acknowledgement was refused.
        String outcome = error == null ? "ok" : error instanceof InvalidRecordStateException ? "fail" : "info";
        Client.tell(new JSONObject().put("event", "acknowledged").put("ns", ns).put("numbers", told).put("outcome", outcome)
            .put("error", error == null ? JSONObject.NULL : Client.named(error)));
    }

    private static Map<Integer, Set<Long>> byPartition(Map<TopicIdPartition, Set<Long>> offsets) {
        Map<Integer, Set<Long>> found = new HashMap<>();
        offsets.forEach((place, of) -> found.put(place.partition(), of));
        return found;
    }

    private void close() {
        try {
            consumer.close(Duration.ofSeconds(10));
        } catch (KafkaException error) {
            Client.notice("close: " + Client.named(error));
        }
    }
}

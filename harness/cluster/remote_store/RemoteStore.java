import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Stream;

import org.apache.kafka.server.log.remote.storage.LogSegmentData;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteLogSegmentMetadata.CustomMetadata;
import org.apache.kafka.server.log.remote.storage.RemoteResourceNotFoundException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageException;
import org.apache.kafka.server.log.remote.storage.RemoteStorageManager;

/**
 * The remote store of tiered topics (KIP-405): a folder that all brokers of a cluster share, and that faults can break.
 *
 * <p>A segment is a folder, segments/TOPIC-PARTITION/FIRST-LAST-ID, with a file for the segment and one for each index.
 * It appears whole, by a rename. The files faults/BROKER-NAME have a line for each operation of that broker that is
 * broken: `OPERATION fail`, `OPERATION delay MILLISECONDS`, or `copy full`, where half of the segment is written before
 * it fails. An operation that met a fault appends that line to the file affected/BROKER.
 */
public final class RemoteStore implements RemoteStorageManager {
    private static final String SEGMENT = "LOG";

    private Path root;
    private String broker;

    @Override
    public void configure(Map<String, ?> configs) {
        root = Path.of((String) configs.get("folder"));
        broker = String.valueOf(configs.get("broker.id"));
    }

    @Override
    public void close() {
    }

    @Override
    public Optional<CustomMetadata> copyLogSegmentData(RemoteLogSegmentMetadata metadata, LogSegmentData data)
            throws RemoteStorageException {
        boolean full = meetFault("copy");
        Path whole = folderOf(metadata);
        Path part = whole.resolveSibling(whole.getFileName() + ".part");
        try {
            Files.createDirectories(part);
            if (full) {
                copyHalf(data.logSegment(), part.resolve(SEGMENT));
                throw new RemoteStorageException("the remote store is full");
            }
            copy(data.logSegment(), part.resolve(SEGMENT));
            copy(data.offsetIndex(), part.resolve(IndexType.OFFSET.name()));
            copy(data.timeIndex(), part.resolve(IndexType.TIMESTAMP.name()));
            copy(data.producerSnapshotIndex(), part.resolve(IndexType.PRODUCER_SNAPSHOT.name()));
            if (data.transactionIndex().isPresent()) {
                copy(data.transactionIndex().get(), part.resolve(IndexType.TRANSACTION.name()));
            }
            byte[] epochs = new byte[data.leaderEpochIndex().remaining()];
            data.leaderEpochIndex().duplicate().get(epochs);
            Files.write(part.resolve(IndexType.LEADER_EPOCH.name()), epochs);
            Files.move(part, whole, StandardCopyOption.ATOMIC_MOVE);
            return Optional.empty();
        } catch (IOException error) {
            throw new RemoteStorageException("segment " + whole.getFileName() + " could not be copied", error);
        }
    }

    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int first) throws RemoteStorageException {
        return fetchLogSegment(metadata, first, Integer.MAX_VALUE - 1);
    }

    /** The bytes of a segment from `first` to `last`, both included. */
    @Override
    public InputStream fetchLogSegment(RemoteLogSegmentMetadata metadata, int first, int last)
            throws RemoteStorageException {
        meetFault("fetch");
        return open(folderOf(metadata).resolve(SEGMENT), first, last);
    }

    @Override
    public InputStream fetchIndex(RemoteLogSegmentMetadata metadata, IndexType kind) throws RemoteStorageException {
        meetFault("fetch");
        return open(folderOf(metadata).resolve(kind.name()), 0, Integer.MAX_VALUE - 1);
    }

    /** Deletes a segment, or what a failed copy left of it; one that is not there was deleted before. */
    @Override
    public void deleteLogSegmentData(RemoteLogSegmentMetadata metadata) throws RemoteStorageException {
        meetFault("delete");
        Path whole = folderOf(metadata);
        try {
            delete(whole);
            delete(whole.resolveSibling(whole.getFileName() + ".part"));
        } catch (IOException error) {
            throw new RemoteStorageException("segment " + whole.getFileName() + " could not be deleted", error);
        }
    }

    private Path folderOf(RemoteLogSegmentMetadata metadata) {
        String topic = metadata.topicIdPartition().topic() + "-" + metadata.topicIdPartition().partition();
        String name = String.format("%020d-%020d-%s", metadata.startOffset(), metadata.endOffset(),
                metadata.remoteLogSegmentId().id());
        return root.resolve("segments").resolve(topic).resolve(name);
    }

    /** Waits or fails as the faults say; returns whether the store is full. */
    private boolean meetFault(String operation) throws RemoteStorageException {
        boolean full = false;
        for (String line : faults()) {
            String[] words = line.split(" ");
            if (!words[0].equals(operation)) {
                continue;
            }
            note(line);
            if (words[1].equals("fail")) {
                throw new RemoteStorageException("the remote store refuses " + operation);
            } else if (words[1].equals("full")) {
                full = true;
            } else {
                try {
                    Thread.sleep(Long.parseLong(words[2]));
                } catch (InterruptedException interrupt) {
                    Thread.currentThread().interrupt();
                    throw new RemoteStorageException("interrupted while the remote store was slow", interrupt);
                }
            }
        }
        return full;
    }

    private List<String> faults() throws RemoteStorageException {
        List<String> lines = new ArrayList<>();
        try (DirectoryStream<Path> files = Files.newDirectoryStream(root.resolve("faults"), broker + "-*")) {
            for (Path file : files) {
                lines.addAll(Files.readAllLines(file));
            }
            return lines;
        } catch (IOException error) {
            throw new RemoteStorageException("the remote store's faults can't be read", error);
        }
    }

    private void note(String line) throws RemoteStorageException {
        try {
            Files.writeString(root.resolve("affected").resolve(broker), line + "\n", StandardOpenOption.APPEND);
        } catch (IOException error) {
            throw new RemoteStorageException("what met a fault can't be noted", error);
        }
    }

    private static InputStream open(Path file, int first, int last) throws RemoteStorageException {
        try {
            FileChannel channel = FileChannel.open(file);
            long end = Math.min(channel.size(), last + 1L);
            ByteBuffer bytes = ByteBuffer.allocate((int) Math.max(0, end - first));
            try (channel) {
                while (bytes.hasRemaining() && channel.read(bytes, first + bytes.position()) >= 0) {
                    continue;
                }
            }
            return new ByteArrayInputStream(bytes.array(), 0, bytes.position());
        } catch (NoSuchFileException missing) {
            throw new RemoteResourceNotFoundException("not in the remote store: " + file, missing);
        } catch (IOException error) {
            throw new RemoteStorageException("not readable in the remote store: " + file, error);
        }
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
    }

    private static void copyHalf(Path from, Path to) throws IOException {
        try (FileChannel source = FileChannel.open(from);
                FileChannel half = FileChannel.open(to, StandardOpenOption.CREATE, StandardOpenOption.WRITE)) {
            source.transferTo(0, source.size() / 2, half);
        }
    }

    private static void delete(Path folder) throws IOException {
        if (!Files.isDirectory(folder)) {
            return;
        }
        try (Stream<Path> files = Files.walk(folder)) {
            for (Path path : files.sorted(Comparator.reverseOrder()).toList()) {
                Files.deleteIfExists(path);
            }
        }
    }
}

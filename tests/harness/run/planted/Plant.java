import java.lang.instrument.ClassFileTransformer;
import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.security.ProtectionDomain;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import jdk.internal.org.objectweb.asm.ClassReader;
import jdk.internal.org.objectweb.asm.ClassVisitor;
import jdk.internal.org.objectweb.asm.ClassWriter;
import jdk.internal.org.objectweb.asm.Label;
import jdk.internal.org.objectweb.asm.MethodVisitor;
import jdk.internal.org.objectweb.asm.Opcodes;

/**
 * A bug for a running broker: a replica drops records that it has acknowledged when it becomes leader, or a coordinator
 * never tells anybody how transactions ended.
 *
 * <p>Its argument is TOPICS;RECORDS;WHEN: once for each partition of these topics, separated by commas, so many records
 * are dropped, rounded up to whole batches: at the first election that finds twice as many (`elected`), or at the first
 * one after the replica has truncated its log as a follower (`truncated`).
 */
public final class Plant {
    private static final Set<String> done = ConcurrentHashMap.newKeySet();
    private static final Set<String> truncated = ConcurrentHashMap.newKeySet();
    private static Set<String> topics;
    private static long records;
    private static boolean afterTruncation;
    private static boolean withholds;

    public static void agentmain(String argument, Instrumentation instrumentation) throws Exception {
        String[] parts = argument.split(";");
        topics = Set.of(parts[0].split(","));
        records = Long.parseLong(parts[1]);
        afterTruncation = parts[2].equals("truncated");
        withholds = parts[2].equals("markers");
        Module module = Plant.class.getModule();
        Module base = Object.class.getModule();
        String asm = "jdk.internal.org.objectweb.asm";
        instrumentation.redefineModule(
                base, Set.of(), Map.of(asm, Set.of(module)), Map.of(), Set.of(), Map.of());
        Hook.into(instrumentation);
        System.out.println("planted: " + argument);
    }

    /** Called whenever a broker's partition begins to lead. */
    public static void leads(Object partition) {
        try {
            String topic = (String) call(partition, "topic");
            String place = topic + "-" + call(partition, "partitionId");
            Object log = call(partition, "log");
            if (withholds || !topics.contains(topic) || (Boolean) call(log, "isEmpty")) {
                return;
            }
            log = call(log, "get");
            long end = ((Number) call(log, "logEndOffset")).longValue();
            if (end < 2 * records || (afterTruncation && !truncated.contains(place)) || !done.add(place)) {
                return;
            }
            truncate(log, end - records);
            // Batches are dropped whole: a log end within one would leave a gap.
            truncate(log, ((Number) call(call(log, "activeSegment"), "readNextOffset")).longValue());
            System.out.println("planted: " + place + " ends at " + call(log, "logEndOffset") + " instead of " + end);
        } catch (ReflectiveOperationException problem) {
            System.out.println("planted: failed, " + problem);
        }
    }

    /** Called whenever the coordinator has ended a transaction: whether the partitions do not learn of it. */
    public static synchronized boolean withholdsMarkers() {
        return withholds && --records < 0;
    }

    /** Called whenever a log is truncated to an offset. */
    public static void truncates(Object log, long offset) {
        try {
            if (offset < ((Number) call(log, "logEndOffset")).longValue()) {
                truncated.add(call(log, "topicPartition").toString());
            }
        } catch (ReflectiveOperationException problem) {
            System.out.println("planted: failed, " + problem);
        }
    }

    private static void truncate(Object log, long offset) throws ReflectiveOperationException {
        for (Method method : log.getClass().getDeclaredMethods()) {
            if (method.getName().equals("truncateTo") && method.getParameterCount() == 1) {
                method.setAccessible(true);
                method.invoke(log, offset);
                return;
            }
        }
        throw new NoSuchMethodException("truncateTo");
    }

    private static Object call(Object subject, String name) throws ReflectiveOperationException {
        Method method = subject.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(subject);
    }
}

/** Puts the calls into Kafka's classes. It names ASM, so it is loaded after the JDK has opened that. */
final class Hook implements ClassFileTransformer {
    static void into(Instrumentation instrumentation) throws Exception {
        instrumentation.addTransformer(new Hook(), true);
        for (Class<?> loaded : instrumentation.getAllLoadedClasses()) {
            if (hooked(loaded.getName().replace('.', '/'))) {
                instrumentation.retransformClasses(loaded);
            }
        }
    }

    private static boolean hooked(String name) {
        return name != null
                && (name.equals("kafka/cluster/Partition")
                        || name.endsWith("/log/UnifiedLog")
                        || name.endsWith("/transaction/TransactionMarkerChannelManager"));
    }

    @Override
    public byte[] transform(ClassLoader loader, String name, Class<?> type, ProtectionDomain domain, byte[] bytes) {
        if (!hooked(name)) {
            return null;
        }
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM8, writer) {
            @Override
            public MethodVisitor visitMethod(int access, String method, String types, String generic, String[] thrown) {
                MethodVisitor next = super.visitMethod(access, method, types, generic, thrown);
                boolean leads = method.equals("makeLeader") && (access & Opcodes.ACC_STATIC) == 0;
                boolean truncates = method.equals("truncateTo") && types.startsWith("(J)");
                if (method.equals("addTxnMarkersToSend") && types.endsWith(")V")) {
                    return new ReturnAtOnce(next);
                }
                return leads || truncates ? new Begin(next, truncates) : next;
            }
        }, 0);
        return writer.toByteArray();
    }

    private static final class Begin extends MethodVisitor {
        private final boolean truncates;

        Begin(MethodVisitor next, boolean truncates) {
            super(Opcodes.ASM8, next);
            this.truncates = truncates;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            visitVarInsn(Opcodes.ALOAD, 0);
            if (truncates) {
                visitVarInsn(Opcodes.LLOAD, 1);
                visitMethodInsn(Opcodes.INVOKESTATIC, "Plant", "truncates", "(Ljava/lang/Object;J)V", false);
            } else {
                visitMethodInsn(Opcodes.INVOKESTATIC, "Plant", "leads", "(Ljava/lang/Object;)V", false);
            }
        }
    }

    private static final class ReturnAtOnce extends MethodVisitor {
        ReturnAtOnce(MethodVisitor next) {
            super(Opcodes.ASM8, next);
        }

        @Override
        public void visitCode() {
            super.visitCode();
            Label goesOn = new Label();
            visitMethodInsn(Opcodes.INVOKESTATIC, "Plant", "withholdsMarkers", "()Z", false);
            visitJumpInsn(Opcodes.IFEQ, goesOn);
            visitInsn(Opcodes.RETURN);
            visitLabel(goesOn);
            visitFrame(Opcodes.F_SAME, 0, null, 0, null);
        }
    }
}

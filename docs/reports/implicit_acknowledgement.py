"""An idempotent producer of librdkafka reports a message as delivered that the broker has refused.

Needs confluent-kafka alone (`pip install confluent-kafka`): the broker is librdkafka's own mock cluster. It refuses the
first Produce request with NOT_ENOUGH_REPLICAS and takes the others, as Apache Kafka does from 2.5 on when its ISR grows
meanwhile (KAFKA-15591: the first batch of an unknown producer may have any sequence number).

    python implicit_acknowledgement.py         five requests in flight: exit code 1, one message is lost
    python implicit_acknowledgement.py 1       one request in flight: exit code 0
"""

import ctypes
import glob
import os
import sys

import confluent_kafka
from confluent_kafka import Consumer, Producer, TopicPartition

PRODUCE, NOT_ENOUGH_REPLICAS = 0, 19
MESSAGES = 4


def librdkafka():
    """The library that confluent-kafka itself has loaded."""
    wheel = os.path.join(os.path.dirname(os.path.dirname(confluent_kafka.__file__)), "confluent_kafka.libs")
    library = ctypes.CDLL(next(iter(glob.glob(f"{wheel}/librdkafka*")), "librdkafka.so.1"))
    for name in ("conf_new", "new", "mock_cluster_new"):
        getattr(library, f"rd_kafka_{name}").restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


def mock_cluster(library, topic=b"t"):
    """A mock cluster of one broker that answers after 200 ms and refuses the first Produce request: its bootstrap."""
    error = ctypes.create_string_buffer(512)
    owner = library.rd_kafka_new(0, ctypes.c_void_p(library.rd_kafka_conf_new()), error, 512)
    cluster = ctypes.c_void_p(library.rd_kafka_mock_cluster_new(ctypes.c_void_p(owner), 1))
    library.rd_kafka_mock_topic_create(cluster, topic, 1, 1)
    library.rd_kafka_mock_broker_set_rtt(cluster, 1, 200)
    library.rd_kafka_mock_push_request_errors(cluster, PRODUCE, ctypes.c_size_t(1), NOT_ENOUGH_REPLICAS)
    return library.rd_kafka_mock_cluster_bootstraps(cluster).decode()


def produce(bootstrap, in_flight):
    """Send the messages, one per request; returns those reported as delivered, with their offsets."""
    delivered = {}

    def report(error, message):
        print(f"delivery report of message {message.value().decode()}: {error or 'success'}, offset {message.offset()}")
        if error is None:
            delivered[message.value()] = message.offset()

    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "max.in.flight.requests.per.connection": in_flight,
            "batch.num.messages": 1,
            "linger.ms": 0,
            "retry.backoff.ms": 1000,
        }
    )
    for number in range(MESSAGES):
        producer.produce("t", str(number).encode(), partition=0, on_delivery=report)
    producer.flush(30)
    return delivered


def read(bootstrap):
    """All messages in the topic."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "g", "enable.partition.eof": True})
    consumer.assign([TopicPartition("t", 0, 0)])
    found = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        found.append(message.value())
    consumer.close()
    return found


if __name__ == "__main__":
    print(f"librdkafka {confluent_kafka.libversion()[0]}")
    cluster = mock_cluster(librdkafka())
    delivered = produce(cluster, int(sys.argv[1]) if len(sys.argv) > 1 else 5)
    log = read(cluster)
    lost = [value.decode() for value in delivered if value not in log]
    print(f"in the log: {[value.decode() for value in log]}; reported as delivered, and not in the log: {lost}")
    sys.exit(bool(lost))

// franz-go as a client that speaks the client protocol.

package main

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const name, module = "franz-go", "github.com/twmb/franz-go"

type franz struct {
	client *kgo.Client
	topic  string
	told   *outcomes
}

func newProducer(b *begin, told *outcomes) (producer, error) {
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[b.Acks]
	delivery := time.Duration(b.DeliveryTimeoutMs) * time.Millisecond
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(b.BootstrapServers, ",")...),
		kgo.ClientID(b.ClientID),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(acks),
		kgo.ProducerLinger(time.Duration(b.LingerMs) * time.Millisecond),
		kgo.RecordDeliveryTimeout(delivery),
		kgo.ProduceRequestTimeout(min(10*time.Second, delivery/4)),
		kgo.RequestTimeoutOverhead(min(10*time.Second, delivery/4)),
		kgo.MaxBufferedRecords(1 << 20),
	}
	if !b.Idempotence {
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(b.MaxInFlight))
	}
	client, err := kgo.NewClient(options...)
	return &franz{client, b.Topic, told}, err
}

func (f *franz) send(seq, partition int64, value []byte) {
	record := &kgo.Record{Topic: f.topic, Partition: int32(partition), Value: value}
	f.client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
		if err != nil {
			f.told.lost(seq, err)
		} else {
			f.told.acknowledged(seq, done.Offset)
		}
	})
}

func (f *franz) flush() {
	f.client.Flush(context.Background())
}

func consume(b *begin, orders <-chan order) error {
	places := map[int32]kgo.Offset{}
	for number := int64(0); number < b.Partitions; number++ {
		places[int32(number)] = kgo.NewOffset().At(b.start(number))
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(b.BootstrapServers, ",")...),
		kgo.ClientID(b.ClientID),
		kgo.FetchMaxWait(100*time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.Topic: places}),
	)
	if err != nil {
		return err
	}
	ready(name, module)
	for {
		select {
		case what := <-orders:
			if what.Order == "leave" {
				return nil
			}
		default:
		}
		within, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		fetches := client.PollFetches(within)
		cancel()
		var found read
		fetches.EachError(func(_ string, _ int32, err error) {
			var lost *kgo.ErrDataLoss
			if errors.As(err, &lost) {
				tell(map[string]any{"event": "assigned"})
			} else if !errors.Is(err, context.DeadlineExceeded) {
				tell(map[string]any{"event": "notice", "text": err.Error()})
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			value, epoch := record.Value, record.LeaderEpoch
			for _, header := range record.Headers {
				if header.Key == "kafka-chaos-id" {
					value = header.Value
				}
			}
			found.add(b.Lane, record.Partition, record.Offset, &epoch, value)
		})
		found.tell()
	}
}

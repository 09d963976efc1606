// franz-go as a client that speaks the client protocol.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const name, module = "franz-go", "github.com/twmb/franz-go"

type franz struct {
	client *kgo.Client
	topic  string
	told   *outcomes
	failed atomic.Int64
	// Set once another producer has the transactional id: the library would go on, and end transactions without records.
	fenced atomic.Pointer[error]
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
	if b.TransactionalID != "" {
		options = append(options, kgo.TransactionalID(b.TransactionalID),
			kgo.TransactionTimeout(time.Duration(b.TransactionMs)*time.Millisecond))
	}
	var client *kgo.Client
	var err error
	// While the transaction of a former producer ends, this producer can't begin, so it tries for a while.
	for deadline := time.Now().Add(delivery); ; time.Sleep(500 * time.Millisecond) {
		client, err = kgo.NewClient(options...)
		if err == nil && b.TransactionalID != "" {
			_, _, err = client.ProducerID(context.Background())
		}
		if err == nil || b.TransactionalID == "" || time.Now().After(deadline) {
			return &franz{client: client, topic: b.Topic, told: told}, err
		}
		if client != nil {
			client.Close()
		}
	}
}

func (f *franz) begin() error {
	f.failed.Store(0)
	return f.client.BeginTransaction()
}

func (f *franz) end(commit bool) error {
	ctx := context.Background()
	settle := f.client.AbortBufferedRecords
	if commit {
		settle = f.client.Flush
	}
	if err := settle(ctx); err != nil {
		return err
	}
	if fenced := f.fenced.Load(); fenced != nil {
		return *fenced
	}
	if !commit {
		return f.client.EndTransaction(ctx, kgo.TryAbort)
	}
	if failed := f.failed.Load(); failed > 0 {
		return fmt.Errorf("RecordsFailed: %d", failed)
	}
	return f.client.EndTransaction(ctx, kgo.TryCommit)
}

func (f *franz) send(seq, partition int64, value []byte) {
	record := &kgo.Record{Topic: f.topic, Partition: int32(partition), Value: value}
	f.client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
		if err != nil {
			f.failed.Add(1)
			if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
				f.fenced.Store(&err)
			}
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
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(b.BootstrapServers, ",")...),
		kgo.ClientID(b.ClientID),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{b.Topic: places}),
		// The marker at the end of a transaction shows the position behind it.
		kgo.KeepControlRecords(),
	}
	if b.Isolation == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	client, err := kgo.NewClient(options...)
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
		stands := map[int32]int64{}
		fetches.EachError(func(_ string, _ int32, err error) {
			var lost *kgo.ErrDataLoss
			if errors.As(err, &lost) {
				tell(map[string]any{"event": "assigned"})
			} else if !errors.Is(err, context.DeadlineExceeded) {
				notice(err.Error())
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			stands[record.Partition] = record.Offset + 1
			if record.Attrs.IsControl() {
				return
			}
			note(b, &found, record)
		})
		found.tell()
		if b.Isolation != "" && len(stands) > 0 {
			offsets := [][]int64{}
			for partition, offset := range stands {
				offsets = append(offsets, []int64{int64(partition), offset})
			}
			tell(map[string]any{"event": "at_end", "offsets": offsets})
		}
	}
}

func note(b *begin, found *read, record *kgo.Record) {
	value, epoch := record.Value, record.LeaderEpoch
	for _, header := range record.Headers {
		if header.Key == "kafka-chaos-id" {
			value = header.Value
		}
	}
	found.add(b.Lane, record.Partition, record.Offset, &epoch, value)
}

// A client that speaks the client protocol of kafka-chaos: producer and consumer, with franz-go.

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"hash/crc32"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type fields map[string]any

// Order has the fields of all orders.
type Order struct {
	Order, Role, Lane, Topic, Acks string
	Partitions, Count              int64
	Idempotence                    bool
	FirstSeq                       int64            `json:"first_seq"`
	Servers                        string           `json:"bootstrap_servers"`
	ClientID                       string           `json:"client_id"`
	ProducerID                     uint32           `json:"producer_id"`
	FirstPartition                 int64            `json:"first_partition"`
	RecordSize                     int              `json:"record_size"`
	MaxInFlight                    int              `json:"max_in_flight"`
	LingerMs                       time.Duration    `json:"linger_ms"`
	DeliveryMs                     time.Duration    `json:"delivery_timeout_ms"`
	StartOffsets                   map[string]int64 `json:"start_offsets"`
}

var begin Order
var orders = make(chan Order, 1000)
var telling sync.Mutex

func tell(event string, values fields) {
	telling.Lock()
	defer telling.Unlock()
	values["event"] = event
	json.NewEncoder(os.Stdout).Encode(values)
}

func main() {
	lines := json.NewDecoder(bufio.NewReader(os.Stdin))
	lines.Decode(&begin)
	go func() {
		for {
			var order Order
			if lines.Decode(&order) != nil {
				os.Exit(130) // nobody gives orders any more
			}
			orders <- order
		}
	}()
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	go func() { // SIGTERM is as the order to leave
		<-terminated
		orders <- Order{Order: "leave"}
	}()
	options := []kgo.Opt{kgo.SeedBrokers(strings.Split(begin.Servers, ",")...), kgo.ClientID(begin.ClientID)}
	if begin.Role == "producer" {
		produce(options)
	} else {
		consume(options)
	}
}

func produce(options []kgo.Opt) {
	acks := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}
	options = append(options, kgo.RequiredAcks(acks[begin.Acks]), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(begin.LingerMs*time.Millisecond),
		kgo.RecordDeliveryTimeout(begin.DeliveryMs*time.Millisecond),
		kgo.RequestTimeoutOverhead(min(10_000, begin.DeliveryMs/4)*time.Millisecond),
		kgo.ProduceRequestTimeout(min(10_000, begin.DeliveryMs/4)*time.Millisecond))
	if !begin.Idempotence { // with it, franz-go has five requests in flight
		options = append(options, kgo.DisableIdempotentWrite(), kgo.MaxProduceRequestsInflightPerBroker(begin.MaxInFlight))
	}
	client, _ := kgo.NewClient(options...)
	tell("ready", fields{"client": "my service", "version": "1"})
	for order := range orders {
		switch order.Order {
		case "produce":
			for seq := order.FirstSeq; seq < order.FirstSeq+order.Count; seq++ {
				partition := int32(begin.FirstPartition + seq%begin.Partitions)
				record := &kgo.Record{Topic: begin.Topic, Partition: partition, Value: encode(seq)}
				client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
					if err != nil { // an earlier attempt may be in the log: in doubt
						tell("outcome", fields{"outcome": "info", "seq": []int64{seq}, "error": err.Error()})
						return
					}
					offset := &done.Offset
					if begin.Acks == "0" { // no broker answers: the library counts within the request
						offset = nil
					}
					tell("outcome", fields{"outcome": "ok", "seq": []int64{seq}, "offset": []*int64{offset}})
				})
			}
		case "flush", "leave":
			client.Flush(context.Background())
			if order.Order == "leave" {
				return
			}
			tell("flushed", fields{})
		}
	}
}

func consume(options []kgo.Opt) {
	places := map[int32]kgo.Offset{}
	for number := int64(0); number < begin.Partitions; number++ {
		places[int32(number)] = kgo.NewOffset().At(begin.StartOffsets[strconv.FormatInt(number, 10)])
	}
	client, _ := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{begin.Topic: places}))...)
	tell("ready", fields{"client": "my service", "version": "1"})
	for {
		select {
		case order := <-orders:
			if order.Order == "leave" {
				return
			}
		default:
		}
		within, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		var partitions, offsets, ids, seqs []int64
		fetches := client.PollFetches(within)
		cancel()
		fetches.EachError(func(_ string, _ int32, err error) {
			if _, isLost := err.(*kgo.ErrDataLoss); isLost { // what was read is gone: it reads anew, under a new name
				tell("assigned", fields{})
			}
		})
		fetches.EachRecord(func(record *kgo.Record) {
			value := record.Value
			for _, header := range record.Headers {
				if header.Key == "kafka-chaos-id" {
					value = header.Value
				}
			}
			id, seq := decode(value)
			partitions, offsets = append(partitions, int64(record.Partition)), append(offsets, record.Offset)
			ids, seqs = append(ids, id), append(seqs, seq)
		})
		if len(seqs) > 0 {
			tell("read", fields{"partition": partitions, "offset": offsets, "producer_id": ids, "seq": seqs})
		}
	}
}

func checksum(value []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(begin.Lane)), crc32.IEEETable, value[4:])
}

func encode(seq int64) []byte {
	value := make([]byte, begin.RecordSize)
	copy(value[4:], "KC01")
	binary.BigEndian.PutUint32(value[8:], begin.ProducerID)
	binary.BigEndian.PutUint64(value[12:], uint64(seq))
	binary.BigEndian.PutUint32(value, checksum(value))
	return value
}

func decode(value []byte) (int64, int64) {
	if len(value) < 20 || string(value[4:8]) != "KC01" || binary.BigEndian.Uint32(value) != checksum(value) {
		return -1, -1
	}
	return int64(int32(binary.BigEndian.Uint32(value[8:]))), int64(binary.BigEndian.Uint64(value[12:]))
}

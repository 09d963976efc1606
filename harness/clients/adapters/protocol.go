// The client protocol (docs/guides/own-client.md), which the clients in Go share.

package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const identityBytes = 20
const toldEvery = 20 * time.Millisecond

type order struct {
	Order    string `json:"order"`
	FirstSeq int64  `json:"first_seq"`
	Count    int64  `json:"count"`
}

type begin struct {
	Role              string           `json:"role"`
	Lane              string           `json:"lane"`
	Topic             string           `json:"topic"`
	Partitions        int64            `json:"partitions"`
	FirstPartition    int64            `json:"first_partition"`
	BootstrapServers  string           `json:"bootstrap_servers"`
	ClientID          string           `json:"client_id"`
	ProducerID        int32            `json:"producer_id"`
	RecordSize        int              `json:"record_size"`
	Acks              string           `json:"acks"`
	Idempotence       bool             `json:"idempotence"`
	MaxInFlight       int              `json:"max_in_flight"`
	LingerMs          int64            `json:"linger_ms"`
	DeliveryTimeoutMs int64            `json:"delivery_timeout_ms"`
	StartOffsets      map[string]int64 `json:"start_offsets"`
	Isolation         string           `json:"isolation"`
	TransactionalID   string           `json:"transactional_id"`
	TransactionMs     int64            `json:"transaction_timeout_ms"`
	Log               bool             `json:"log"`
	// Only in the order for a member of a group:
	Group         string         `json:"group"`
	Name          string         `json:"name"`
	Commits       string         `json:"commits"`
	FreezeSeconds float64        `json:"freeze_seconds"`
	Configs       map[string]any `json:"configs"`
}

func (b *begin) start(partition int64) int64 {
	return b.StartOffsets[strconv.FormatInt(partition, 10)]
}

var telling sync.Mutex

func tell(event map[string]any) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	telling.Lock()
	defer telling.Unlock()
	os.Stdout.Write(append(line, '\n'))
}

func ready(client, module string) {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dependency := range info.Deps {
			if dependency.Path == module {
				version = dependency.Version[1:]
			}
		}
	}
	tell(map[string]any{"event": "ready", "client": client, "version": version})
}

func notice(text string) {
	tell(map[string]any{"event": "notice", "text": text})
}

func fail(err error) {
	tell(map[string]any{"event": "error", "text": err.Error()})
	os.Exit(70)
}

// The outcomes of records, gathered from the library and told to the harness in batches.
type outcomes struct {
	sync.Mutex
	// Whether brokers answer. If they do not (acks=0), the library's offset is a position in the request, not in the log.
	answered bool
	seqs     []int64
	offsets  []*int64
	failed   map[string][]int64
	known    atomic.Int64
	telling  sync.Mutex
}

func (o *outcomes) acknowledged(seq, offset int64) {
	o.Lock()
	defer o.Unlock()
	o.seqs = append(o.seqs, seq)
	if offset < 0 || !o.answered {
		o.offsets = append(o.offsets, nil)
	} else {
		o.offsets = append(o.offsets, &offset)
	}
	o.known.Add(1)
}

// Told as `info`: the error does not say what earlier attempts left in the log.
func (o *outcomes) lost(seq int64, err error) {
	o.Lock()
	defer o.Unlock()
	o.failed[err.Error()] = append(o.failed[err.Error()], seq)
	o.known.Add(1)
}

// One call at a time tells. When it returns, every outcome that was known before the call is told.
func (o *outcomes) tell() {
	o.telling.Lock()
	defer o.telling.Unlock()
	o.Lock()
	seqs, offsets, failed := o.seqs, o.offsets, o.failed
	o.seqs, o.offsets, o.failed = nil, nil, map[string][]int64{}
	o.Unlock()
	if len(seqs) > 0 {
		tell(map[string]any{"event": "outcome", "outcome": "ok", "seq": seqs, "offset": offsets})
	}
	for text, seqs := range failed {
		tell(map[string]any{"event": "outcome", "outcome": "info", "seq": seqs, "error": text})
	}
}

func encode(b *begin, seq int64) []byte {
	value := make([]byte, b.RecordSize)
	copy(value[4:], "KC01")
	binary.BigEndian.PutUint32(value[8:], uint32(b.ProducerID))
	binary.BigEndian.PutUint64(value[12:], uint64(seq))
	binary.BigEndian.PutUint32(value, checksum(b.Lane, value))
	return value
}

func checksum(lane string, value []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(lane)), crc32.IEEETable, value[4:])
}

func decode(lane string, value []byte) (int32, int64) {
	if len(value) < identityBytes || string(value[4:8]) != "KC01" ||
		binary.BigEndian.Uint32(value) != checksum(lane, value) {
		return -1, -1
	}
	return int32(binary.BigEndian.Uint32(value[8:])), int64(binary.BigEndian.Uint64(value[12:]))
}

// The most records in one event: the harness limits the length of a line.
const mostTold = 10_000

// The columns of an event `read`.
type read struct {
	partition, offset, seq []int64
	producerID             []int32
	leaderEpoch            []*int32
}

func (r *read) add(lane string, partition int32, offset int64, epoch *int32, value []byte) {
	producerID, seq := decode(lane, value)
	r.partition = append(r.partition, int64(partition))
	r.offset = append(r.offset, offset)
	r.leaderEpoch = append(r.leaderEpoch, epoch)
	r.producerID = append(r.producerID, producerID)
	r.seq = append(r.seq, seq)
	if len(r.seq) == mostTold {
		r.tell()
		*r = read{}
	}
}

func (r *read) event() map[string]any {
	return map[string]any{"event": "read", "partition": r.partition, "offset": r.offset,
		"leader_epoch": r.leaderEpoch, "producer_id": r.producerID, "seq": r.seq}
}

func (r *read) tell() {
	if len(r.seq) > 0 {
		tell(r.event())
	}
}

// The part of a library that `produce` uses. `send` must not wait for the outcome.
type producer interface {
	send(seq, partition int64, value []byte)
	flush()
}

// The part of a library that transactions use. `end` repeats a request that times out.
type transactional interface {
	begin() error
	end(commit bool) error
}

func produce(b *begin, orders <-chan order, client producer, told *outcomes) {
	go func() {
		for {
			time.Sleep(toldEvery)
			told.tell()
		}
	}()
	sent := int64(0)
	for what := range orders {
		switch what.Order {
		case "produce":
			for seq := what.FirstSeq; seq < what.FirstSeq+what.Count; seq++ {
				client.send(seq, b.FirstPartition+seq%b.Partitions, encode(b, seq))
			}
			sent += what.Count
		case "flush", "leave":
			client.flush()
			for told.known.Load() < sent {
				time.Sleep(toldEvery)
			}
			told.tell()
			if what.Order == "leave" {
				return
			}
			tell(map[string]any{"event": "flushed"})
		case "begin_transaction":
			// If no transaction was begun, its end fails, and tells the harness.
			if err := client.(transactional).begin(); err != nil {
				notice(err.Error())
			}
		case "commit", "abort":
			done := map[string]any{"event": "transaction", "did": what.Order}
			if err := client.(transactional).end(what.Order == "commit"); err != nil {
				done["error"] = err.Error()
			}
			told.tell()
			tell(done)
		}
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	var b begin
	if !lines.Scan() {
		os.Exit(130)
	}
	if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
		fail(fmt.Errorf("begin: %w", err))
	}
	orders := make(chan order, 1024)
	go func() {
		for lines.Scan() {
			var one order
			if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
				fail(err)
			}
			orders <- one
		}
		// The harness has ended, so this process ends, too.
		os.Exit(130)
	}()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	signal.Ignore(syscall.SIGINT)
	go func() {
		<-signals
		orders <- order{Order: "leave"}
	}()
	told := &outcomes{answered: b.Acks != "0", failed: map[string][]int64{}}
	if b.Role == "producer" {
		client, err := newProducer(&b, told)
		if err != nil {
			fail(err)
		}
		ready(name, module)
		produce(&b, orders, client, told)
	} else if err := map[string]func(*begin, <-chan order) error{"consumer": consume, "member": join}[b.Role](&b, orders); err != nil {
		fail(err)
	}
}

// A member of a consumer group with franz-go. harness/workload/groups/member.py does the same with librdkafka and gives the
// reasons. The configs in `begin` have librdkafka's names.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const killed, replaceMe = 137, 3
const mostPolled = 500
const commitsWithin = 20 * time.Second
const monotonicClock = 1

var balancers = map[string]kgo.GroupBalancer{
	"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer()}

type member struct {
	*begin
	client *kgo.Client
	// Guards the fields below, which callbacks change. No callback runs while records are processed.
	sync.Mutex
	held    map[int32]bool
	stands  map[int32]int64
	last    map[int32]*kgo.Record // by partition, the last record that was read under this name
	told    map[int32]int64
	name    string
	names   int
	commits int64
	lastNs  int64
	freezes int
	crashes bool
	leaves  bool
}

// Nanoseconds of CLOCK_MONOTONIC, which other processes read, too.
func monotonic() int64 {
	var now syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, monotonicClock, uintptr(unsafe.Pointer(&now)), 0)
	return now.Nano()
}

func join(b *begin, orders <-chan order) error {
	m := &member{begin: b, held: map[int32]bool{}, stands: map[int32]int64{}, told: map[int32]int64{},
		last: map[int32]*kgo.Record{}}
	// The new client joins at once; the lock keeps callbacks from telling of partitions before the event `ready`.
	m.Lock()
	client, err := kgo.NewClient(m.options()...)
	if err != nil {
		return err
	}
	m.client = client
	ready(name, module)
	m.Unlock()
	for !m.leaves {
		m.step(orders)
	}
	client.CloseAllowingRebalance()
	m.Lock()
	defer m.Unlock()
	m.taken(m.places())
	return nil
}

func (m *member) options() []kgo.Opt {
	ms := func(key string) time.Duration {
		value, _ := strconv.ParseFloat(fmt.Sprint(m.Configs[key]), 64)
		return time.Duration(value) * time.Millisecond
	}
	text := func(key string) string { return fmt.Sprint(m.Configs[key]) }
	reset := kgo.NewOffset().AtStart()
	if text("auto.offset.reset") == "latest" {
		reset = kgo.NewOffset().AtEnd()
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(m.BootstrapServers, ",")...),
		kgo.ClientID(m.ClientID),
		kgo.ConsumerGroup(m.Group),
		kgo.ConsumeTopics(m.Topic),
		// franz-go limits no time between polls, but the time that processing may take in a rebalance.
		kgo.RebalanceTimeout(ms("max.poll.interval.ms")),
		kgo.BlockRebalanceOnPoll(),
		kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(reset),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.KeepControlRecords(),
		kgo.OnPartitionsAssigned(m.onAssigned),
		kgo.OnPartitionsRevoked(m.onRevoked),
		kgo.OnPartitionsLost(m.onRevoked),
	}
	if text("group.protocol") == "consumer" {
		options = append(options, assignedByBrokers()...)
	} else {
		options = append(options, kgo.Balancers(balancers[text("partition.assignment.strategy")]),
			kgo.SessionTimeout(ms("session.timeout.ms")), kgo.HeartbeatInterval(ms("heartbeat.interval.ms")))
	}
	if text("isolation.level") == "read_committed" {
		options = append(options, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	if id, ok := m.Configs["group.instance.id"].(string); ok {
		options = append(options, kgo.InstanceID(id))
	}
	if age := ms("topic.metadata.refresh.interval.ms"); age > 0 {
		options = append(options, kgo.MetadataMaxAge(age), kgo.MetadataMinAge(age))
	}
	return options
}

func (m *member) hear(orders <-chan order) {
	for {
		select {
		case one := <-orders:
			m.freezes += map[string]int{"freeze": 1}[one.Order]
			m.crashes = m.crashes || one.Order == "crash"
			m.leaves = m.leaves || one.Order == "leave"
		default:
			return
		}
	}
}

func (m *member) step(orders <-chan order) {
	within, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	fetches := m.client.PollRecords(within, mostPolled)
	cancel()
	defer m.client.AllowRebalance()
	fetches.EachError(func(_ string, _ int32, err error) {
		if !errors.Is(err, context.DeadlineExceeded) {
			notice(err.Error())
		}
		if errors.Is(err, kerr.FencedInstanceID) {
			os.Exit(replaceMe)
		}
	})
	m.hear(orders)
	m.Lock()
	records, stands := []*kgo.Record{}, map[int32]int64{}
	fetches.EachRecord(func(record *kgo.Record) {
		stands[record.Partition] = record.Offset + 1
		if !record.Attrs.IsControl() {
			records = append(records, record)
		}
	})
	for _, record := range records {
		if wasReset(record, m.last[record.Partition]) {
			m.begins(m.places())
		}
		m.last[record.Partition] = record
	}
	again := false
	if len(records) > 0 {
		if m.freezes > 0 {
			m.freezes--
			tell(map[string]any{"event": "changes", "change": "freezes"})
			time.Sleep(time.Duration(m.FreezeSeconds * float64(time.Second)))
			tell(map[string]any{"event": "changes", "change": "thaws"})
		}
		again = m.process(records)
	}
	if again {
		m.readAgain(records)
	} else {
		for partition, at := range stands {
			m.stands[partition] = at
		}
		m.tellPositions()
	}
	m.Unlock()
}

// Whether the client has reset the position by itself: to the start of the log or, after a truncation, to its end. New
// records then have a later leader epoch. In doubt, a position that went back counts as reset.
func wasReset(record, before *kgo.Record) bool {
	if before == nil || record.Offset > before.Offset {
		return false
	}
	return record.Offset == 0 || record.LeaderEpoch < 0 || before.LeaderEpoch < 0 || record.LeaderEpoch > before.LeaderEpoch
}

// Returns whether the batch must be read again.
func (m *member) process(records []*kgo.Record) bool {
	before := m.Commits == "before"
	if before && !m.commit(records) {
		return true
	}
	if m.crashes {
		// Rounded so that even a batch of one record is processed without a commit, or committed without being processed.
		done := (len(records) + 1) / 2
		if before {
			done = len(records) / 2
		}
		m.read(records[:done])
		notice("crashes amid a batch")
		os.Exit(killed)
	}
	m.read(records)
	if !before {
		m.commit(records)
	}
	return false
}

func (m *member) read(records []*kgo.Record) {
	if len(records) == 0 {
		return
	}
	var found read
	for _, record := range records {
		note(m.begin, &found, record)
	}
	firstNs := max(m.lastNs+1, monotonic())
	m.lastNs = firstNs + int64(len(records)) - 1
	event := found.event()
	event["consumer"], event["ns"] = m.name, firstNs
	tell(event)
}

// Returns whether the commit was acknowledged. An error is told as `info`: an attempt whose answer was lost may have taken
// effect.
func (m *member) commit(records []*kgo.Record) bool {
	next := map[int32]kgo.EpochOffset{}
	for _, record := range records {
		next[record.Partition] = kgo.EpochOffset{Epoch: record.LeaderEpoch, Offset: record.Offset + 1}
	}
	offsets, failed := [][]int64{}, [][]any{}
	for partition, at := range next {
		offsets = append(offsets, []int64{int64(partition), at.Offset})
	}
	sort.Slice(offsets, func(one, other int) bool { return offsets[one][0] < offsets[other][0] })
	number := m.commits
	m.commits++
	tell(map[string]any{"event": "commit", "number": number, "consumer": m.name, "offsets": offsets,
		"producer_id": nil, "transaction": nil, "ns": monotonic()})
	within, cancel := context.WithTimeout(context.Background(), commitsWithin)
	defer cancel()
	m.client.CommitOffsetsSync(within, map[string]map[int32]kgo.EpochOffset{m.Topic: next},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
			if err != nil {
				for partition := range next {
					failed = append(failed, []any{partition, "info", err.Error()})
				}
				return
			}
			for _, topic := range answer.Topics {
				for _, one := range topic.Partitions {
					if err := kerr.ErrorForCode(one.ErrorCode); err != nil {
						failed = append(failed, []any{one.Partition, "info", err.Error()})
					}
				}
			}
		})
	tell(map[string]any{"event": "committed", "number": number, "errors": failed, "ns": monotonic()})
	return len(failed) == 0
}

func (m *member) readAgain(records []*kgo.Record) {
	first := map[int32]kgo.EpochOffset{}
	for _, record := range records {
		delete(m.stands, record.Partition)
		if _, known := first[record.Partition]; !known && m.held[record.Partition] {
			first[record.Partition] = kgo.EpochOffset{Epoch: -1, Offset: record.Offset}
		}
	}
	m.client.SetOffsets(map[string]map[int32]kgo.EpochOffset{m.Topic: first})
	m.begins(m.places())
}

// Tells positions. In a partition of which nothing was read yet, it is the offset that the group has committed.
func (m *member) tellPositions() {
	offsets := [][]int64{}
	committed := m.client.CommittedOffsets()[m.Topic]
	for partition := range m.held {
		at, known := m.stands[partition]
		if found, also := committed[partition]; !known && also {
			at, known = found.Offset, found.Offset >= 0
		}
		if before, told := m.told[partition]; known && (!told || before != at) {
			m.told[partition] = at
			offsets = append(offsets, []int64{int64(partition), at})
		}
	}
	if len(offsets) > 0 {
		tell(map[string]any{"event": "at_end", "offsets": offsets})
	}
}

func (m *member) onAssigned(_ context.Context, _ *kgo.Client, added map[string][]int32) {
	m.Lock()
	defer m.Unlock()
	kept := m.places()
	for _, partition := range added[m.Topic] {
		m.held[partition] = true
	}
	m.begins(kept)
}

func (m *member) onRevoked(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
	m.Lock()
	defer m.Unlock()
	m.taken(lost[m.Topic])
}

func (m *member) places() []int32 {
	found := []int32{}
	for partition := range m.held {
		found = append(found, partition)
	}
	sort.Slice(found, func(one, other int) bool { return found[one] < found[other] })
	return found
}

func (m *member) begins(ended []int32) {
	now := monotonic()
	m.ends(ended, now)
	clear(m.told)
	clear(m.last)
	m.names++
	m.name = fmt.Sprintf("%s-%d", m.Name, m.names)
	if len(m.held) > 0 {
		id, generation := m.client.GroupMetadata()
		tell(map[string]any{"event": "assigned", "consumer": m.name, "ns": now, "member": id,
			"generation": generation, "partitions": m.places()})
	}
}

func (m *member) taken(partitions []int32) {
	gone := []int32{}
	for _, partition := range partitions {
		if m.held[partition] {
			gone = append(gone, partition)
		}
	}
	m.ends(gone, monotonic())
	for _, partition := range gone {
		delete(m.held, partition)
		delete(m.stands, partition)
		delete(m.told, partition)
	}
}

func (m *member) ends(partitions []int32, now int64) {
	if len(partitions) > 0 {
		tell(map[string]any{"event": "given_back", "consumer": m.name, "ns": now, "partitions": partitions})
	}
}

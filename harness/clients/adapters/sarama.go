// sarama as a client that speaks the client protocol.

package main

import (
	"errors"
	"fmt"
	"log"
	"reflect"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const name, module = "sarama", "github.com/IBM/sarama"
const backoff = 500 * time.Millisecond
const beginsWithin = 30 * time.Second
const quiet = 300 * time.Millisecond

// Tells the harness each line of sarama's log about a partition whose messages are sent again, or that waited behind those.
type repetitions struct{}

func (repetitions) Write(line []byte) (int, error) {
	if told := string(line); strings.Contains(told, "to [flushing-") || strings.Contains(told, "to [retrying-") {
		tell(map[string]any{"event": "log", "line": strings.TrimSpace(string(line))})
	}
	return len(line), nil
}

type async struct {
	client sarama.AsyncProducer
	topic  string
	told   *outcomes
	sent   int64
}

func newProducer(b *begin, told *outcomes) (producer, error) {
	if b.Log {
		sarama.Logger = log.New(repetitions{}, "", 0)
	}
	config := sarama.NewConfig()
	config.ClientID = b.ClientID
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll}[b.Acks]
	config.Producer.Idempotent = b.Idempotence
	config.Net.MaxOpenRequests = b.MaxInFlight
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = time.Duration(b.LingerMs) * time.Millisecond
	// sarama limits the number of attempts, and has no delivery time-out.
	delivery := time.Duration(b.DeliveryTimeoutMs) * time.Millisecond
	config.Net.ReadTimeout = min(config.Net.ReadTimeout, delivery/2)
	config.Producer.Timeout = min(config.Producer.Timeout, delivery/2)
	config.Producer.Retry.Backoff = backoff
	config.Producer.Retry.Max = int(delivery / backoff)
	config.Producer.Return.Successes = true
	config.Producer.Return.Errors = true
	config.Producer.Transaction.ID = b.TransactionalID
	config.Producer.Transaction.Timeout = time.Duration(b.TransactionMs) * time.Millisecond
	config.Producer.Transaction.Retry.Backoff = backoff
	config.Producer.Transaction.Retry.Max = int(delivery / backoff)
	client, err := sarama.NewAsyncProducer(strings.Split(b.BootstrapServers, ","), config)
	// While the transaction of a former producer ends, sarama returns an error, and does not ask again.
	for deadline := time.Now().Add(delivery); b.TransactionalID != "" && err != nil && time.Now().Before(deadline); {
		time.Sleep(backoff)
		client, err = sarama.NewAsyncProducer(strings.Split(b.BootstrapServers, ","), config)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		for done := range client.Successes() {
			told.acknowledged(done.Metadata.(int64), done.Offset)
		}
	}()
	go func() {
		for failed := range client.Errors() {
			told.lost(failed.Msg.Metadata.(int64), failed.Err)
		}
	}()
	return &async{client: client, topic: b.Topic, told: told}, nil
}

func (a *async) begin() error {
	return a.client.BeginTxn()
}

// sarama first waits for the messages that were sent, and commits no transaction of which a message has failed.
func (a *async) end(commit bool) error {
	end := a.client.AbortTxn
	if commit {
		end = a.client.CommitTxn
	}
	err := end()
	for a.told.known.Load() < a.sent {
		time.Sleep(toldEvery)
	}
	var code sarama.KError
	if errors.As(err, &code) {
		return fmt.Errorf("KError%d: %w", int16(code), err)
	}
	return err
}

func (a *async) send(seq, partition int64, value []byte) {
	a.sent++
	a.client.Input() <- &sarama.ProducerMessage{
		Topic: a.topic, Partition: int32(partition), Value: sarama.ByteEncoder(value), Metadata: seq}
}

// Empty, since sarama has no flush: the caller waits for the outcomes.
func (a *async) flush() {}

func consume(b *begin, orders <-chan order) error {
	config := sarama.NewConfig()
	config.ClientID = b.ClientID
	config.Consumer.Return.Errors = true
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	if b.Isolation == "read_committed" {
		config.Consumer.IsolationLevel = sarama.ReadCommitted
	}
	client, err := sarama.NewConsumer(strings.Split(b.BootstrapServers, ","), config)
	if err != nil {
		return err
	}
	messages := make(chan *sarama.ConsumerMessage, 4096)
	resets := make(chan int32, 64)
	followed := map[int32]sarama.PartitionConsumer{}
	for number := int64(0); number < b.Partitions; number++ {
		one, err := follow(client, b.Topic, int32(number), b.start(number), messages, resets)
		if err != nil {
			return err
		}
		followed[int32(number)] = one
	}
	ready(name, module)
	stands := map[int32]int64{}
	for {
		var found read
		select {
		case what := <-orders:
			if what.Order == "leave" {
				return nil
			}
		case number := <-resets:
			tell(map[string]any{"event": "assigned"})
			one, err := follow(client, b.Topic, number, sarama.OffsetOldest, messages, resets)
			if err != nil {
				return err
			}
			followed[number] = one
		case message := <-messages:
			note(b, &found, message)
			for more := len(messages); more > 0; more-- {
				note(b, &found, <-messages)
			}
			clear(stands)
		case <-time.After(quiet):
			if b.Isolation != "" {
				tellPositions(followed, stands)
			}
		}
		found.tell()
	}
}

// sarama's position, which also passes markers, is a private field, so it is read by reflection. A position is told if it was
// the same twice, some time apart, with nothing read between: then every message before it was handed over.
func tellPositions(followed map[int32]sarama.PartitionConsumer, stands map[int32]int64) {
	offsets := [][]int64{}
	for number, one := range followed {
		at := reflect.ValueOf(one).Elem().FieldByName("offset").Int()
		if before, known := stands[number]; known && before == at {
			offsets = append(offsets, []int64{int64(number), at})
		}
		stands[number] = at
	}
	if len(offsets) > 0 {
		tell(map[string]any{"event": "at_end", "offsets": offsets})
	}
}

func note(b *begin, found *read, message *sarama.ConsumerMessage) {
	value := message.Value
	for _, header := range message.Headers {
		if string(header.Key) == "kafka-chaos-id" {
			value = header.Value
		}
	}
	found.add(b.Lane, message.Partition, message.Offset, nil, value)
}

func follow(client sarama.Consumer, topic string, number int32, offset int64,
	messages chan<- *sarama.ConsumerMessage, resets chan<- int32) (sarama.PartitionConsumer, error) {
	one, err := client.ConsumePartition(topic, number, offset)
	// Repeated, since brokers return errors until they know the topic and its leader.
	for deadline := time.Now().Add(beginsWithin); err != nil && time.Now().Before(deadline); {
		time.Sleep(backoff)
		one, err = client.ConsumePartition(topic, number, offset)
	}
	if err != nil {
		return nil, err
	}
	go func() {
		for message := range one.Messages() {
			messages <- message
		}
		// The channel is closed when the offset is out of range.
		resets <- number
	}()
	go func() {
		for failed := range one.Errors() {
			if !errors.Is(failed.Err, sarama.ErrOffsetOutOfRange) {
				notice(failed.Err.Error())
			}
		}
	}()
	return one, nil
}

// sarama does not tell whether a commit was acknowledged, so it can't be a member of a group.
func join(*begin, <-chan order) error {
	return errors.New("sarama is no member of a group here")
}

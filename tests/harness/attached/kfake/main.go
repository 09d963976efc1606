// A cluster of three brokers by franz-go's kfake: Kafka's protocol without Kafka's replication.
//
// Prints the brokers' addresses, separated by commas, and ends when its standard input is closed. With `-lose N`, every
// Nth Produce request is acknowledged and not stored.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func main() {
	lose := flag.Int64("lose", 0, "acknowledge every Nth Produce request without storing it")
	flag.Parse()
	cluster, err := kfake.NewCluster(kfake.NumBrokers(3), kfake.SeedTopics(3, flag.Args()...))
	if err != nil {
		log.Fatal(err)
	}
	defer cluster.Close()
	var requests atomic.Int64
	cluster.ControlKey(int16(kmsg.Produce), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if *lose == 0 || requests.Add(1)%*lose != 0 {
			return nil, nil, false
		}
		return acknowledged(request.(*kmsg.ProduceRequest)), nil, true
	})
	fmt.Println(strings.Join(cluster.ListenAddrs(), ","))
	io.Copy(io.Discard, os.Stdin)
}

// acknowledged answers a request as a broker that stored its batches, at offsets that no record has.
func acknowledged(request *kmsg.ProduceRequest) kmsg.Response {
	answer := request.ResponseKind().(*kmsg.ProduceResponse)
	for _, topic := range request.Topics {
		about := kmsg.NewProduceResponseTopic()
		about.Topic, about.TopicID = topic.Topic, topic.TopicID
		for _, partition := range topic.Partitions {
			stored := kmsg.NewProduceResponseTopicPartition()
			stored.Partition, stored.BaseOffset = partition.Partition, 1<<40
			about.Partitions = append(about.Partitions, stored)
		}
		answer.Topics = append(answer.Topics, about)
	}
	return answer
}

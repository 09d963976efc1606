//go:build v1_22

package main

import "github.com/twmb/franz-go/pkg/kgo"

// Lets brokers assign partitions (KIP-848), with the assignor that this balancer's name chooses.
func assignedByBrokers() []kgo.Opt {
	return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())}
}

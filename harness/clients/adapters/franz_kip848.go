//go:build v1_22

package main

import "github.com/twmb/franz-go/pkg/kgo"

// Brokers assign (KIP-848), by the assignor that is named as the client's.
func assignedByBrokers() []kgo.Opt {
	return []kgo.Opt{kgo.ServerSideBalancer(), kgo.Balancers(kgo.RangeBalancer())}
}

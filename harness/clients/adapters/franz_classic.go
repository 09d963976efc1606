//go:build !v1_22

package main

import "github.com/twmb/franz-go/pkg/kgo"

// Versions before 1.22 lack KIP-848. They are refused for a group that asks for it, so nothing calls this.
func assignedByBrokers() []kgo.Opt { return nil }

//go:build !v1_22

package main

import "github.com/twmb/franz-go/pkg/kgo"

// Versions before 1.22 can't, and are refused where a group asks for it.
func assignedByBrokers() []kgo.Opt { return nil }

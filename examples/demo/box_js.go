package main

import (
	"context"
	"sync"
)

// box is the Redis of the chapters with replicas, which a store in this process plays.
type box struct {
	plugs   [2]*plug // of the replicas A and B
	standIn *standIn

	mu    sync.Mutex // guards power
	power power
}

func newBox() *box {
	b := &box{plugs: [2]*plug{{}, {}}, standIn: newStandIn(), power: power{Up: true, Text: redisInPage}}
	for i, p := range b.plugs {
		p.into(b.standIn.of(i))
	}
	return b
}

func (b *box) state() power {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.power
}

// turn turns it on or off.
func (b *box) turn(_ context.Context, on bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.standIn.turn(on)
	b.power.Up = on
	return nil
}

func (b *box) close() {}

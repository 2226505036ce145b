package conn

import (
	"context"
	"net"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// nextAsked is after how long the next node is asked who has which slots, too.
const nextAsked = 100 * time.Millisecond

// slots returns who has which slots, as the first node to answer says. It asks
// one after another, without waiting for those that hang, and first the one
// that answered last time.
func (n *nodes) slots(ctx context.Context) ([]redis.ClusterSlot, error) {
	type answer struct {
		addr  string
		slots []redis.ClusterSlot
		err   error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	addrs := n.toAsk()
	answers := make(chan answer, len(addrs))
	asked, failed := 0, Lines(nil)
	next := time.NewTimer(0)
	defer next.Stop()
	for answered := 0; answered < len(addrs); {
		select {
		case <-next.C:
		case a := <-answers:
			if a.err == nil {
				slots := from(a.addr, a.slots)
				n.learn(a.addr, slots)
				return slots, nil
			}
			answered++
			failed = append(failed, a.err)
		}
		if asked < len(addrs) {
			addr := addrs[asked]
			go func() {
				//lint:ignore SA1019 servers before Redis 7.0 have no CLUSTER SHARDS
				slots, err := n.asking(addr).ClusterSlots(ctx).Result()
				answers <- answer{addr, slots, err}
			}()
			asked++
			next.Reset(nextAsked)
		}
	}
	return nil, failed
}

// toAsk returns the nodes that are known, and at last those that have not
// answered.
func (n *nodes) toAsk() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := slices.Clone(n.known)
	slices.SortStableFunc(list, func(a, b string) int { return int(n.silent[a].since.Unix() - n.silent[b].since.Unix()) })
	return list
}

// asking returns the client by which a node is asked.
func (n *nodes) asking(addr string) *redis.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ask[addr] == nil {
		o := *n.options
		o.Addr, o.MaxRetries = addr, -1
		n.ask[addr] = n.client(&o)
	}
	return n.ask[addr]
}

// learn notes the nodes that addr has named, and that it comes first.
func (n *nodes) learn(addr string, slots []redis.ClusterSlot) {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := []string{addr}
	for _, slot := range slots {
		for _, one := range slot.Nodes {
			known = append(known, one.Addr)
		}
	}
	known = append(known, n.known...)
	seen := make(map[string]bool)
	n.known = slices.DeleteFunc(known, func(addr string) bool {
		before := seen[addr]
		seen[addr] = true
		return before
	})
}

// from completes addresses that the node at addr has sent: one without a host,
// or of this machine as that node sees it, is on the node's own host, and one
// without a port is at the node's port, as go-redis has it.
func from(addr string, slots []redis.ClusterSlot) []redis.ClusterSlot {
	host, port, _ := net.SplitHostPort(addr)
	for i := range slots {
		for j := range slots[i].Nodes {
			slots[i].Nodes[j].Addr = Seen(slots[i].Nodes[j].Addr, host, port)
		}
	}
	return slots
}

// Seen returns the address of a node that another one at host and port has
// named.
func Seen(addr, host, port string) string {
	h, p, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if ip := net.ParseIP(h); h == "" || h == "?" || ip.IsLoopback() {
		h = host
	}
	if p == "0" {
		p = port
	}
	return net.JoinHostPort(h, p)
}

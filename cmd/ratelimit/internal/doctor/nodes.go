package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/conn"
	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// allSlots is how many slots a Cluster has.
const allSlots = 16384

// node is a node of a Cluster.
type node struct {
	addr   string
	client *redis.Client // nil: it has no address
	err    error         // of PING
	info   string        // INFO replication; "": there is no right to it

	// What another node says. Without the right to CLUSTER NODES only master is
	// known, by CLUSTER SLOTS.
	master bool
	slots  int
	id, of string // of is the ID of its master
	flags  string
}

// answers reports whether the node answers PING.
func (n *node) answers() bool { return n.client != nil && n.err == nil }

// ask sends PING and INFO.
func (n *node) ask(ctx context.Context) {
	if n.err = n.client.Ping(ctx).Err(); n.err == nil {
		n.info, _ = n.client.Info(ctx, "replication").Result()
	}
}

// Nodes looks at each node of a Cluster, and at its slots. It returns the
// masters that have keys and answer.
func Nodes(ctx context.Context, l *conn.Link) (f Findings, masters []*redis.Client, err error) {
	list, err := nodesOf(ctx, l.Client.(*redis.ClusterClient))
	if err != nil {
		return nil, nil, err
	}
	askAll(ctx, list)
	asked := slices.IndexFunc(list, func(n *node) bool { return n.answers() && n.master })
	if asked < 0 {
		asked = slices.IndexFunc(list, (*node).answers)
	}
	complete := false
	if asked >= 0 {
		one := list[asked]
		text, err := one.client.ClusterNodes(ctx).Result()
		if complete = err == nil; complete {
			list = withView(l, list, one, text)
		} else {
			f.add("node", Note, one.addr+": no right to CLUSTER NODES, so replicas of masters, and nodes without slots, are not known: "+err.Error(), "Give the user +cluster|nodes, or use another user for this.")
		}
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	covered := 0
	for _, n := range list {
		f.node(n, list, complete)
		if covered += n.slots; n.answers() && n.master && (n.slots > 0 || !complete) {
			masters = append(masters, n.client)
		}
	}
	if complete {
		f.coverage(ctx, list, covered)
	}
	return f, masters, nil
}

// nodesOf returns the nodes that have slots, and their replicas.
func nodesOf(ctx context.Context, c *redis.ClusterClient) (list []*node, err error) {
	var mu sync.Mutex
	add := func(master bool) func(context.Context, *redis.Client) error {
		return func(_ context.Context, one *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			list = append(list, &node{addr: one.Options().Addr, client: one, master: master})
			return nil
		}
	}
	if err := c.ForEachMaster(ctx, add(true)); err != nil {
		return nil, err
	}
	if err := c.ForEachSlave(ctx, add(false)); err != nil {
		return nil, err
	}
	slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	return list, nil
}

func askAll(ctx context.Context, list []*node) {
	var all sync.WaitGroup
	for _, n := range list {
		if n.client != nil {
			all.Go(func() { n.ask(ctx) })
		}
	}
	all.Wait()
}

// withView adds what the node asked says by CLUSTER NODES, and the nodes that
// have no slots.
func withView(l *conn.Link, list []*node, asked *node, text string) []*node {
	var others []*node
	host, port, _ := net.SplitHostPort(asked.addr)
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 8 {
			continue
		}
		addr, _, _ := strings.Cut(fields[1], "@")
		addr = conn.Seen(addr, host, port)
		if strings.Contains(fields[2], "myself") {
			addr = asked.addr
		}
		i := slices.IndexFunc(list, func(n *node) bool { return n.addr == addr || n.addr == hostname(fields[1]) })
		var n *node
		if i >= 0 {
			n = list[i]
		} else {
			n = &node{addr: addr}
			if !strings.Contains(fields[2], "noaddr") {
				n.client = l.Node(addr)
			}
			others = append(others, n)
		}
		n.id, n.flags, n.of = fields[0], strings.TrimPrefix(fields[2], "myself,"), fields[3]
		n.master = strings.Contains(n.flags, "master")
		for _, part := range fields[8:] {
			n.slots += countSlots(part)
		}
	}
	askAll(context.Background(), others) // each call is bounded
	return append(list, others...)
}

// hostname returns the name and port in a field of CLUSTER NODES, or "".
func hostname(field string) string {
	addr, rest, _ := strings.Cut(field, "@")
	parts := strings.Split(rest, ",")
	if _, port, err := net.SplitHostPort(addr); err == nil && len(parts) > 1 && parts[1] != "" {
		return net.JoinHostPort(parts[1], port)
	}
	return ""
}

// countSlots returns how many slots a part of CLUSTER NODES names, such as
// 0-5460. A slot in brackets moves.
func countSlots(part string) int {
	first, last, several := strings.Cut(part, "-")
	from, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	to, err := strconv.Atoi(last)
	if !several || err != nil {
		return 1
	}
	return to - from + 1
}

// node says how one node does.
func (f *Findings) node(n *node, list []*node, complete bool) {
	if !n.master {
		f.replica(n, list)
		return
	}
	var able []string // replicas that could take over
	for _, r := range list {
		if !r.master && r.of == n.id && r.answers() {
			able = append(able, r.addr)
		}
	}
	is := "master"
	switch {
	case complete && n.slots == 0:
		is += " without slots, and so without keys"
	case complete:
		is += " of " + show.Some(int64(n.slots), "slot")
	}
	if strings.Contains(n.flags, "fail") {
		is += ", which other nodes call failed"
	}
	switch {
	case complete && n.slots == 0 && n.answers():
		f.add("node", Note, n.addr+": "+is, "Give it slots (redis-cli --cluster reshard), or remove it.")
	case complete && n.slots == 0:
		f.add("node", Note, n.down(is), "If it is gone for good, send CLUSTER FORGET to each other node.")
	case !n.answers():
		f.add("node", Fault, n.down(is), "OnFailure decides for its keys, and other masters decide for theirs. "+n.remedy(able))
	case complete && len(able) == 0:
		f.add("node", Note, n.addr+": "+is+", and no replica of it answers", "If it fails, its keys can't be decided until it is back: add a replica.")
	case complete:
		f.add("node", OK, n.addr+": "+is+", replica "+strings.Join(able, ", "), "")
	default:
		f.add("node", OK, n.addr+": "+is, "")
	}
}

// down is why a node does not answer, and what it is.
func (n *node) down(is string) string {
	if n.client == nil {
		return n.addr + " has no address (" + is + ")"
	}
	return n.err.Error() + " (" + is + ")"
}

// remedy is what to do about a master with keys.
func (n *node) remedy(able []string) string {
	var reply redis.Error
	if errors.As(n.err, &reply) {
		return "If it is the password or the user: each node has its own, which must be those of the others."
	}
	if len(able) == 0 {
		return "Resume or restart it: it has no replica that answers."
	}
	host, port, _ := net.SplitHostPort(able[0])
	return "Resume or restart it, or have a replica take over: redis-cli -h " + host + " -p " + port + " CLUSTER FAILOVER FORCE."
}

func (f *Findings) replica(n *node, list []*node) {
	is := "replica"
	if i := slices.IndexFunc(list, func(m *node) bool { return m.id == n.of && m.id != "" }); i >= 0 {
		is += " of " + list[i].addr
	}
	switch {
	case !n.answers():
		f.add("node", Note, n.down(is), "It can't take over if its master fails: resume or restart it.")
	case strings.Contains(n.info, "master_link_status:down"):
		f.add("node", Note, n.addr+": "+is+", which its master does not reach now", "It lacks what its master has written since.")
	default:
		f.add("node", OK, n.addr+": "+is, "")
	}
}

// coverage says whether all slots have a master, and whether nodes serve them.
func (f *Findings) coverage(ctx context.Context, list []*node, covered int) {
	if covered < allSlots {
		f.add("slots", Fault, fmt.Sprintf("no master has %s of %s slots: nobody decides for their keys", show.Count(int64(allSlots-covered)), show.Count(allSlots)),
			"See redis-cli --cluster check, and --cluster fix.")
	}
	for _, n := range list {
		if !n.answers() || !n.master {
			continue
		}
		info, err := n.client.ClusterInfo(ctx).Result()
		if err == nil && strings.Contains(info, "cluster_state:fail") {
			f.add("slots", Fault, n.addr+": cluster_state is fail, so it refuses requests",
				"A majority of the masters must reach each other, and with cluster-require-full-coverage each slot must have one.")
		}
	}
}

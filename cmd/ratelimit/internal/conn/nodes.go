package conn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// askedAgain is how long after a silence a node is asked again.
const askedAgain = 10 * time.Second

// nodes are the nodes of a Cluster, as this process has found them. A node
// that has not answered is not asked again for a while: so a node that hangs
// costs a command one wait, and not one for each call and each key.
type nodes struct {
	wait time.Duration // for an answer, and for the connection before it

	options *redis.Options

	mu     sync.Mutex
	silent map[string]silence       // by address
	known  []string                 // addresses to ask who has which slots
	ask    map[string]*redis.Client // by address
}

// NodeError is the error of one node of a Cluster: others may be well.
type NodeError struct {
	Addr string
	Err  error // what it replied, or that it did not
}

func (e *NodeError) Error() string {
	if s, ok := e.Err.(silence); ok { //nolint:errorlint // only as it was made
		return e.Addr + " " + s.why
	}
	return e.Addr + ": " + e.Err.Error()
}

func (e *NodeError) Unwrap() error { return e.Err }

// Lines are errors that stand on a line each.
type Lines []error

func (l Lines) Error() string {
	texts := make([]string, len(l))
	for i, err := range l {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "\n  ")
}

func (l Lines) Unwrap() []error { return l }

// silence is the error of a node that does not answer.
type silence struct {
	why   string
	since time.Time
}

func (s silence) Error() string { return s.why }

// Is makes it a deadline's error, also if the connection was refused:
// go-redis must not try again by itself.
func (silence) Is(target error) bool { return target == context.DeadlineExceeded }

// client is NewClient of go-redis for one node.
func (n *nodes) client(o *redis.Options) *redis.Client {
	if strings.HasPrefix(o.Addr, ":") && o.NodeAddress != "" {
		o.Addr = o.NodeAddress // of this machine: go-redis leaves its host out
	}
	c := redis.NewClient(o)
	c.AddHook(&node{nodes: n, addr: o.Addr})
	return c
}

// Node returns a client of one server by its address: a node of the Cluster,
// or a server that a Sentinel knows. It is closed with the connection.
func (l *Link) Node(addr string) *redis.Client { return l.nodes.asking(addr) }

func newNodes(wait time.Duration, o *redis.Options, addrs []string) *nodes {
	return &nodes{wait: wait, options: o, silent: make(map[string]silence), known: addrs, ask: make(map[string]*redis.Client)}
}

func (n *nodes) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range n.ask {
		_ = c.Close()
	}
}

// node is the hook of one node's client.
type node struct {
	*nodes

	addr string
}

// down returns the error of a node that is not asked now, or nil.
func (n *node) down() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s, ok := n.silent[n.addr]; ok && time.Since(s.since) < askedAgain {
		return &NodeError{n.addr, s}
	}
	return nil
}

// fell notes that the node does not answer.
func (n *node) fell(why string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	s := silence{why, time.Now()}
	n.silent[n.addr] = s
	return &NodeError{n.addr, s}
}

// DialHook notes connections that can't be opened.
func (n *node) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := n.down(); err != nil {
			return nil, err
		}
		connection, err := next(ctx, network, addr)
		if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" && !op.Timeout() {
			return nil, n.fell("does not answer: " + op.Err.Error())
		}
		return connection, n.named(err)
	}
}

// ProcessHook bounds a call.
func (n *node) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := n.bounded(ctx, func(ctx context.Context) error { return next(ctx, cmd) })
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// ProcessPipelineHook bounds the calls of a pipeline.
func (n *node) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := n.bounded(ctx, func(ctx context.Context) error { return next(ctx, cmds) })
		for _, cmd := range cmds {
			if e := (*NodeError)(nil); errors.As(err, &e) && (cmd.Err() == nil || !isReply(cmd.Err())) {
				cmd.SetErr(err)
			} else {
				cmd.SetErr(n.named(cmd.Err()))
			}
		}
		return err
	}
}

// bounded sends something to the node, unless it is known to be silent.
func (n *node) bounded(ctx context.Context, send func(context.Context) error) error {
	if err := n.down(); err != nil {
		return err
	}
	began := time.Now()
	bounded, cancel := context.WithTimeout(ctx, n.wait)
	defer cancel()
	err := send(bounded)
	// A shorter wait, as of a caller who gave up, proves nothing.
	if waited := time.Since(began); isTimeout(err) && ctx.Err() != context.Canceled && waited >= n.wait/2 {
		return n.fell(fmt.Sprintf("does not answer within %v", n.wait))
	}
	return n.named(err)
}

func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func isTimeout(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}

// ofNodes are the beginnings of replies that concern a node, whatever it was
// asked.
var ofNodes = []string{"NOAUTH", "WRONGPASS", "AUTH", "ERR AUTH", "ERR invalid password", "NOPERM", "LOADING", "OOM", "MISCONF", "NOREPLICAS", "MASTERDOWN", "BUSY", "CLUSTERDOWN", "ERR max number of clients"}

// named adds the node's address to an error that has none, unless it is a
// reply that concerns a key or a slot.
func (n *node) named(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.As(err, new(*NodeError)) {
		return err
	}
	var reply redis.Error
	ofNode := func(begin string) bool { return strings.HasPrefix(reply.Error(), begin) }
	if errors.As(err, &reply) && !slices.ContainsFunc(ofNodes, ofNode) {
		return err
	}
	return &NodeError{n.addr, err}
}

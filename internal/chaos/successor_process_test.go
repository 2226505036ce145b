package chaos_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

const (
	// crewSize processes share the buckets. Each has crewWorkers goroutines,
	// and each of those makes one decision every crewPace.
	crewSize    = 3
	crewWorkers = 4
	crewPace    = 8 * time.Millisecond
	// crewKeys buckets hold crewCapacity tokens each. They refill after a day,
	// so not during a test.
	crewKeys     = 4
	crewCapacity = 1 << 20
)

// crewPlan tells a process where its store is. One of the addresses is set.
type crewPlan struct {
	Name      string // of the process' connections
	Addr      string // of a server
	Sentinels []string
	Nodes     []string // of a Cluster
	Prefix    string
	Confirmed time.Duration // how long a decision waits for a replica; 0: it does not
}

// client returns the client that the plan asks for. It dials once, so a master
// that is away is noticed soon.
func (p crewPlan) client() redis.UniversalClient {
	switch {
	case p.Sentinels != nil:
		return redis.NewFailoverClient(&redis.FailoverOptions{MasterName: "limits", SentinelAddrs: p.Sentinels, ClientName: p.Name, ReadTimeout: wait, DialerRetries: 1})
	case p.Nodes != nil:
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: p.Nodes, ClientName: p.Name, ReadTimeout: wait, DialerRetries: 1})
	}
	options := &redis.Options{Addr: p.Addr, ClientName: p.Name, ReadTimeout: wait, DialerRetries: 1}
	if p.Confirmed > 0 {
		return confirmedClient(options, p.Confirmed)
	}
	return redis.NewClient(options)
}

// connect returns a limiter over a client of its own.
func (p crewPlan) connect(t *testing.T) *core.Limiter {
	t.Helper()
	client := p.client()
	t.Cleanup(func() { _ = client.Close() })
	return p.limiter(client)
}

// limiter returns a limiter for the crew's buckets.
func (p crewPlan) limiter(client redis.UniversalClient) *core.Limiter {
	store := redisstore.New(client, patient, asking, redisstore.WithPrefix(p.Prefix))
	limit := core.Limit{Capacity: crewCapacity, RefillRate: crewCapacity, RefillInterval: 24 * time.Hour, Mode: core.Stepped}
	return core.Must(core.NewLimiter(store, core.Policy{Name: "crew", Limits: []core.Limit{limit}, OnFailure: core.FailClosed}))
}

// decision is one that a process made, in nanoseconds since 1970. It is neither
// admitted nor failed if another process has drained the bucket already.
type decision struct {
	Sent, Answered   int64
	Admitted, Failed bool
}

// account is what a process did: its paced decisions, and how many tokens it
// had when it drained the buckets.
type account struct {
	Decisions []decision
	Drained   int64
	Error     string // of draining
}

// crewVar holds the plan of a process of a crew.
const crewVar = "CREW_PLAN"

// TestCrewProcess is one of the processes of a crew. It makes paced decisions
// until a line tells it to drain the buckets.
func TestCrewProcess(t *testing.T) {
	var plan crewPlan
	if json.Unmarshal([]byte(os.Getenv(crewVar)), &plan) != nil {
		t.Skip("is for the tests of successors")
	}
	l := plan.connect(t)
	decidesAgain(t, l, keyNames(crewKeys))
	fmt.Println("ready")

	stop := make(chan struct{})
	var all sync.WaitGroup
	var made [crewWorkers][]decision
	for i := range made {
		all.Go(func() { made[i] = paced(l, keyNames(crewKeys)[i%crewKeys], stop) })
	}
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	close(stop)
	all.Wait()
	if err != nil {
		return // the parent is gone
	}
	var a account
	for _, list := range made {
		a.Decisions = append(a.Decisions, list...)
	}
	if plan.Confirmed > 0 {
		plan.Confirmed = 0 // the successor has no replica
		l = plan.connect(t)
	}
	decidesAgain(t, l, keyNames(crewKeys))
	if a.Drained, err = drain(l, keyNames(crewKeys)); err != nil {
		a.Error = err.Error()
	}
	require.NoError(t, json.NewEncoder(os.Stdout).Encode(a))
}

// paced makes one decision every crewPace. If one takes longer, the next is
// late; none is made up for.
func paced(l *core.Limiter, key string, stop <-chan struct{}) (made []decision) {
	ticks := time.NewTicker(crewPace)
	defer ticks.Stop()
	for {
		select {
		case <-stop:
			return made
		case <-ticks.C:
			sent := time.Now()
			res, err := l.Allow(context.Background(), key)
			made = append(made, decision{sent.UnixNano(), time.Now().UnixNano(), res.Allowed, err != nil})
		}
	}
}

// drain takes all tokens of keys, in halves, until one token is denied. While
// the nodes of a Cluster do not agree, a client may be sent to a dead one
// again, so drain repeats what certainly was not sent.
func drain(l *core.Limiter, keys []string) (tokens int64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for _, key := range keys {
		for cost := int64(crewCapacity); cost > 0; {
			res, err := l.AllowN(ctx, key, cost)
			switch dial := (*net.OpError)(nil); {
			case err == nil && res.Allowed:
				tokens += cost
			case err == nil:
				cost /= 2
			case errors.Is(err, core.ErrBreakerOpen), errors.As(err, &dial) && dial.Op == "dial":
			default:
				return tokens, err
			}
		}
	}
	return tokens, nil
}

// crew is processes that share buckets.
type crew struct {
	plan crewPlan
	all  []*crewProcess
}

type crewProcess struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	stderr bytes.Buffer
}

// startCrew starts the processes. They make decisions when it returns.
func startCrew(t *testing.T, plan crewPlan) *crew {
	t.Helper()
	c := &crew{plan: plan}
	for i := range crewSize {
		plan.Name = c.name(i)
		text, err := json.Marshal(plan)
		require.NoError(t, err)
		p := &crewProcess{cmd: exec.Command(os.Args[0], "-test.run=^TestCrewProcess$")}
		p.cmd.Env = append(os.Environ(), crewVar+"="+string(text))
		p.cmd.Stderr = &p.stderr
		p.stdin, err = p.cmd.StdinPipe()
		require.NoError(t, err)
		stdout, err := p.cmd.StdoutPipe()
		require.NoError(t, err)
		p.stdout = bufio.NewReader(stdout)
		require.NoError(t, p.cmd.Start())
		t.Cleanup(func() {
			_ = p.stdin.Close() // ends the process
			_ = p.cmd.Wait()
		})
		c.all = append(c.all, p)
	}
	for _, p := range c.all {
		require.Equal(t, "ready\n", p.line(t))
	}
	return c
}

// name is what the connections of a process are called.
func (c *crew) name(process int) string { return fmt.Sprint("crew-", process) }

func (p *crewProcess) line(t *testing.T) string {
	t.Helper()
	line, err := p.stdout.ReadString('\n')
	if err != nil {
		_ = p.cmd.Wait() // so that all of stderr is there
		require.NoError(t, err, "a process ended: %s%s", line, &p.stderr)
	}
	return line
}

// drain has the processes drain the buckets, and returns what all of them did.
func (c *crew) drain(t *testing.T) (all account) {
	t.Helper()
	for _, p := range c.all {
		_, err := io.WriteString(p.stdin, "drain\n")
		require.NoError(t, err)
	}
	for _, p := range c.all {
		var one account
		line := p.line(t)
		require.NoError(t, json.Unmarshal([]byte(line), &one), line)
		require.Empty(t, one.Error, "premise: the successor decides while the buckets are drained")
		all.Decisions = append(all.Decisions, one.Decisions...)
		all.Drained += one.Drained
	}
	return all
}

// moved waits until each process has a connection to one server and none to
// another. Sentinel sends them there.
func (c *crew) moved(t *testing.T, from, to *redis.Client) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		before, err := from.ClientList(context.Background()).Result()
		require.NoError(t, err)
		after, err := to.ClientList(context.Background()).Result()
		require.NoError(t, err)
		for i := range c.all {
			assert.NotContains(t, before, "name="+c.name(i)+" ")
			assert.Contains(t, after, "name="+c.name(i)+" ")
		}
	}, wait, tick)
}

// left returns how many tokens the buckets hold.
func left(t *testing.T, l *core.Limiter) (tokens int64) {
	t.Helper()
	for _, key := range keyNames(crewKeys) {
		res, err := l.Peek(context.Background(), key)
		require.NoError(t, err)
		tokens += res.Remaining
	}
	return tokens
}

// busy waits until the processes have used a number of tokens more.
func (c *crew) busy(t *testing.T, client redis.UniversalClient, tokens int64) {
	t.Helper()
	l := c.plan.limiter(client)
	target := left(t, l) - tokens
	require.Eventually(t, func() bool { return left(t, l) <= target }, wait, 10*tick, "the processes make decisions")
}

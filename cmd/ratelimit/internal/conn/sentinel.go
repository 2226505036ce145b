package conn

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// Sentinel is what one Sentinel says.
type Sentinel struct {
	Addr   string
	Master string // the address of the master that it names
	Err    error  // why it names none

	Client *redis.SentinelClient
}

// sentinelsError is the error if no Sentinel names the master.
type sentinelsError struct{ all Lines }

func (e *sentinelsError) Error() string { return "no Sentinel names the master:\n  " + e.all.Error() }

func (e *sentinelsError) Unwrap() error { return e.all }

// askSentinels asks all Sentinels which server is the master. It sends what
// each says as it comes, in time for a call. o has the options of TLS. Who
// receives them closes the clients.
func (f *Flags) askSentinels(ctx context.Context, o *redis.Options) <-chan Sentinel {
	addrs := strings.Split(f.sentinels, ",")
	said := make(chan Sentinel, len(addrs))
	for _, addr := range addrs {
		s := Sentinel{Addr: addr, Client: redis.NewSentinelClient(&redis.Options{
			Addr: addr, Username: f.sentinelUser, Password: f.sentinelPassword, TLSConfig: o.TLSConfig,
			ContextTimeoutEnabled: true, DialerRetries: 1, DialTimeout: o.DialTimeout, MaxRetries: -1,
		})}
		go func() {
			ctx, cancel := context.WithTimeout(ctx, f.Timeout)
			defer cancel()
			at, err := s.Client.GetMasterAddrByName(ctx, f.master).Result()
			switch {
			case err == nil:
				s.Master = net.JoinHostPort(at[0], at[1])
			case isTimeout(err):
				s.Err = &NodeError{addr, silence{why: fmt.Sprintf("does not answer within %v", f.Timeout)}}
			default:
				s.Err = &NodeError{addr, err}
			}
			said <- s
		}()
	}
	return said
}

// nameMaster returns the first answer of a Sentinel that names the master.
// go-redis would wait for Sentinels that hang.
func (f *Flags) nameMaster(ctx context.Context, o *redis.Options) (Sentinel, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	said := f.askSentinels(ctx, o)
	var failed Lines
	for range cap(said) {
		s := <-said
		_ = s.Client.Close()
		if s.Err == nil {
			return s, nil
		}
		failed = append(failed, s.Err)
	}
	return Sentinel{}, &sentinelsError{failed}
}

// Sentinels returns what all Sentinels say, in the order of the flag. It is
// nil without Sentinels. The caller closes the clients.
func (l *Link) Sentinels(ctx context.Context) (list []Sentinel) {
	if l.flags.sentinels == "" {
		return nil
	}
	byAddr := make(map[string]Sentinel)
	said := l.flags.askSentinels(ctx, l.options)
	for range cap(said) {
		s := <-said
		byAddr[s.Addr] = s
	}
	for _, addr := range strings.Split(l.flags.sentinels, ",") {
		list = append(list, byAddr[addr])
	}
	return list
}

// Replica is a replica that a Sentinel knows.
type Replica struct {
	Addr    string
	Flags   string // as the Sentinel has them
	Err     error  // why it does not answer
	Follows bool   // it has a link to its master
}

// Replicas returns the replicas that a Sentinel knows, and asks each.
func (l *Link) Replicas(ctx context.Context, s *Sentinel) ([]Replica, error) {
	bounded, cancel := context.WithTimeout(ctx, l.flags.Timeout)
	defer cancel()
	known, err := s.Client.Replicas(bounded, l.flags.master).Result()
	if err != nil {
		return nil, err
	}
	list := make([]Replica, len(known))
	var all sync.WaitGroup
	for i, fields := range known {
		r := &list[i]
		r.Addr, r.Flags = net.JoinHostPort(fields["ip"], fields["port"]), fields["flags"]
		one := l.Node(r.Addr)
		all.Go(func() {
			var info string
			info, r.Err = one.Info(ctx, "replication").Result()
			if isReply(r.Err) { // there is no right to INFO
				r.Err = one.Ping(ctx).Err()
			}
			r.Follows = !strings.Contains(info, "master_link_status:down")
		})
	}
	all.Wait()
	return list, nil
}

package cause

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// reply is an error that a server replied.
type reply string

func (e reply) Error() string { return string(e) }
func (reply) RedisError()     {}

// Of a server that answers no line says that it does not, but what is wrong.
func TestDescribeSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, "Redis does not answer"},
		{fmt.Errorf("no connection: %w", io.EOF), "Redis does not answer"},
		{&Unconnected{Address: "a", Cause: errors.New("no socket")}, "Redis does not answer"},
		{&Unconnected{Address: "a", After: 1, Cause: reply("NOAUTH")}, "Redis does not answer"},
		{context.DeadlineExceeded, "Redis does not answer"},
		{os.ErrDeadlineExceeded, "Redis does not answer"},
		{&net.DNSError{Name: "nowhere"}, "Redis does not answer"},
		{errors.New("the Redis client panicked: index out of range"), "calls to Redis fail"},
		{redis.ErrClosed, "calls to Redis fail"},
		{fmt.Errorf("policy: %w", redis.ErrPoolTimeout), "the client of Redis has no free connection"},
		{reply("NOAUTH Authentication required."), "Redis refuses the password or the user"},
		{reply("WRONGPASS invalid username-password pair or user is disabled."), "Redis refuses the password or the user"},
		{reply("ERR invalid password"), "Redis refuses the password or the user"},
		{fmt.Errorf("hook: %w", reply("NOPERM User limiter has no permissions to run the 'evalsha' command")), "Redis refuses this user a command or a key"},
		{reply("ERR The user executing the script can't run this command or subcommand"), "Redis refuses this user a command or a key"},
		{reply("READONLY You can't write against a read only replica."), "this Redis is a replica and takes no writes"},
		{reply("OOM command not allowed when used memory > 'maxmemory'."), "the memory of Redis is full, so it takes no writes"},
		{reply("MISCONF Redis is configured to save RDB snapshots"), "Redis takes no writes"},
		{reply("NOREPLICAS Not enough good replicas to write."), "Redis takes no writes"},
		{reply("LOADING Redis is loading the dataset in memory"), "Redis is not ready"},
		{reply("CLUSTERDOWN Hash slot not served"), "no node of the Cluster serves the key"},
		{reply("ERR DB index is out of range"), "Redis answers with an error"},
	} {
		assert.Equal(t, c.want, Describe(c.err), "%v", c.err)
	}
}

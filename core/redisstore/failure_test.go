package redisstore

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

// Of a server that answers no line says that it does not, but what is wrong.
func TestDiagnosisSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{&net.OpError{Op: "dial", Err: errors.New("refused")}, "Redis does not answer"},
		{fmt.Errorf("no connection: %w", io.EOF), "Redis does not answer"},
		{&unconnected{address: "a", cause: errors.New("no socket")}, "Redis does not answer"},
		{&unconnected{address: "a", after: 1, cause: serverError("NOAUTH")}, "Redis does not answer"},
		{context.DeadlineExceeded, "Redis does not answer"},
		{os.ErrDeadlineExceeded, "Redis does not answer"},
		{&net.DNSError{Name: "nowhere"}, "Redis does not answer"},
		{errors.New("the Redis client panicked: index out of range"), "calls to Redis fail"},
		{redis.ErrClosed, "calls to Redis fail"},
		{fmt.Errorf("policy: %w", redis.ErrPoolTimeout), "the client of Redis has no free connection"},
		{serverError("NOAUTH Authentication required."), "Redis refuses the password or the user"},
		{serverError("WRONGPASS invalid username-password pair or user is disabled."), "Redis refuses the password or the user"},
		{serverError("ERR invalid password"), "Redis refuses the password or the user"},
		{fmt.Errorf("hook: %w", serverError("NOPERM User limiter has no permissions to run the 'evalsha' command")), "Redis refuses this user a command or a key"},
		{serverError("ERR The user executing the script can't run this command or subcommand"), "Redis refuses this user a command or a key"},
		{serverError("READONLY You can't write against a read only replica."), "this Redis is a replica and takes no writes"},
		{serverError("OOM command not allowed when used memory > 'maxmemory'."), "the memory of Redis is full, so it takes no writes"},
		{serverError("MISCONF Redis is configured to save RDB snapshots"), "Redis takes no writes"},
		{serverError("NOREPLICAS Not enough good replicas to write."), "Redis takes no writes"},
		{serverError("LOADING Redis is loading the dataset in memory"), "Redis is not ready"},
		{serverError("CLUSTERDOWN Hash slot not served"), "no node of the Cluster serves the key"},
		{serverError("ERR DB index is out of range"), "Redis answers with an error"},
	} {
		assert.Equal(t, c.want, diagnosis(c.err), "%v", c.err)
	}
}

package chaos_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/internal/faultproxy"
)

// distantServer and distanceTo configure TestDistanceProxy.
const (
	distantServer = "DISTANT_SERVER"
	distanceTo    = "DISTANCE_TO_IT"
)

// away returns the address of a proxy that delays traffic to server. The proxy is another process, so that thousands of
// goroutines in this one do not delay it.
func away(t *testing.T, server string, latency time.Duration) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestDistanceProxy$", "-test.v")
	cmd.Env = append(os.Environ(), distantServer+"="+server, distanceTo+"="+latency.String())
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if addr, ok := strings.CutPrefix(lines.Text(), distantServer+"="); ok {
			return addr
		}
	}
	t.Fatal("the proxy does not start")
	return ""
}

// away runs TestDistanceProxy in another process.
func TestDistanceProxy(t *testing.T) {
	server := os.Getenv(distantServer)
	if server == "" {
		t.Skip("is for TestDistantRedis")
	}
	latency, err := time.ParseDuration(os.Getenv(distanceTo))
	require.NoError(t, err)
	proxy := faultproxy.New(t, server)
	if latency > 0 {
		proxy.SetLatency(latency)
	}
	fmt.Println(distantServer + "=" + proxy.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the process that started this one ends
}

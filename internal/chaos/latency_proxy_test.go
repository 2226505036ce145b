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

// delayedServer and addedLatency configure TestDelayProxy.
const (
	delayedServer = "DELAYED_SERVER"
	addedLatency  = "ADDED_LATENCY"
)

// delayProxy returns the address of a proxy that delays traffic to server. The
// proxy is another process, so that thousands of goroutines in this one do not
// delay it.
func delayProxy(t *testing.T, server string, latency time.Duration) (addr string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestDelayProxy$", "-test.v")
	cmd.Env = append(os.Environ(), delayedServer+"="+server, addedLatency+"="+latency.String())
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
		if addr, ok := strings.CutPrefix(lines.Text(), delayedServer+"="); ok {
			return addr
		}
	}
	t.Fatal("the proxy does not start")
	return ""
}

// delayProxy runs TestDelayProxy in another process.
func TestDelayProxy(t *testing.T) {
	server := os.Getenv(delayedServer)
	if server == "" {
		t.Skip("is for TestAddedLatency")
	}
	latency, err := time.ParseDuration(os.Getenv(addedLatency))
	require.NoError(t, err)
	proxy := faultproxy.New(t, server)
	if latency > 0 {
		proxy.SetLatency(latency)
	}
	fmt.Println(delayedServer + "=" + proxy.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the process that started this one ends
}

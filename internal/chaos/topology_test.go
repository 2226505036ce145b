package chaos_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"
)

func hostPort(t *testing.T, addr string) (host, port string) {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return host, port
}

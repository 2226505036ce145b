//go:build !js

package main

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestForeignHostNamesAreRefused(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "LOCALHOST:8080": true, "demo.localhost:8080": true, "localhost.": true,
		"127.0.0.1:8080": true, "192.168.1.7:8080": true, "192.168.1.7": true, "[::1]:8080": true, "[::1]": true, "[fe80::1%25eth0]:8080": true,
		"box.lan:8080": true, "BOX.lan": true,
		"evil.com": false, "evil.com:8080": false, "localhost.evil.com": false, "127.0.0.1.evil.com:8080": false, "evillocalhost": false, "": false,
	} {
		require.Equal(t, want, meantFor(&http.Request{Host: host}, "box.lan"), "Host: %s", host)
	}
	require.False(t, meantFor(&http.Request{Host: ""}, ""), "no host at all")
}

//go:build unix

package policyfile_test

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/tokenbucket-go/ratelimit/core/policyfile"
)

// Of two reloads at once, the one that has read the older file must not set it
// last.
func TestReloadNeverSetsAnOlderFile(t *testing.T) {
	path, api, login := limitersOf(t)
	slow := path + ".slow" // a pipe: reading it ends when the writer has closed it
	require.NoError(t, syscall.Mkfifo(slow, 0o600))
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { first <- policyfile.Reload(slow, api, login) }()
	writer, err := os.OpenFile(slow, os.O_WRONLY, 0) // waits until it is read
	require.NoError(t, err)
	defer writer.Close()
	write(t, path, "- {name: api, limits: [90/min]}\n- {name: login, limits: [9/min]}\n")
	go func() { second <- policyfile.Reload(path, api, login) }()
	select {
	case err := <-second:
		t.Fatalf("a reload must not overtake another: %v", err)
	case <-time.After(50 * time.Millisecond): // it waits
	}
	_, err = writer.WriteString(before)
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	require.NoError(t, <-first)
	require.NoError(t, <-second)
	assert.EqualValues(t, 90, api.Limits("k")[0].Capacity, "the file that was read last counts")
}

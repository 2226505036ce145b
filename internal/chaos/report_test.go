package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// latencies holds how long decisions took.
type latencies struct{ median, slowest time.Duration }

// row is the result of one outage.
type row struct {
	fault    string
	closed   latencies     // of a crowd while the breaker was closed
	open     latencies     // of a crowd while it was open
	admitted int64         // by FailLocal during the outage, for one key
	recovery time.Duration // from the fault's end to the first decision by the store
}

var reportFile = flag.String("report", "", "write the measured tables to this file; recovery within 2 s is required then")

var tables struct {
	sync.Mutex
	outages, failovers, memory, latencies, takeovers, evictions, shards, steps []string
}

// report adds r to the table. Promised times are checked only in a run for the
// table, which has the machine to itself.
func report(t *testing.T, r row) {
	t.Helper()
	t.Logf("%+v", r)
	if *reportFile == "" {
		return
	}
	require.Less(t, r.recovery, 2*time.Second, "promise: recovery within 2 s")
	tables.Lock()
	defer tables.Unlock()
	tables.outages = append(tables.outages, fmt.Sprintf("| %s | %v | %v | %v | %d of %d | %v |\n", r.fault,
		r.closed.slowest.Round(time.Millisecond), r.open.median.Round(time.Microsecond/10), r.open.slowest.Round(time.Microsecond),
		r.admitted, capacity, r.recovery.Round(time.Millisecond)))
}

// reportFailover adds the results of load during a failover to the table.
func reportFailover(t *testing.T, what string, ld *load, took time.Duration) {
	t.Helper()
	tables.Lock()
	defer tables.Unlock()
	tables.failovers = append(tables.failovers, fmt.Sprintf("| %s | %d | %d | %d | %v |\n", what,
		ld.decisions.Load(), ld.fallback.Load(), ld.failed.Load(), took.Round(time.Millisecond)))
}

// reportMemory adds the memory that n keys take to the table.
func reportMemory(what string, bytes uint64, n int) {
	tables.Lock()
	defer tables.Unlock()
	tables.memory = append(tables.memory, fmt.Sprintf("| %s | %.1f MB | %.0f |\n", what, float64(bytes)/1e6, float64(bytes)/float64(n)))
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *reportFile != "" && code == 0 {
		var sections []string
		for _, rows := range [][]string{tables.outages, tables.failovers, tables.memory, tables.latencies, tables.takeovers, tables.evictions, tables.shards, tables.steps} {
			sections = append(sections, strings.Join(rows, ""))
		}
		text := strings.Join(sections, "\n")
		if err := os.WriteFile(*reportFile, []byte(text), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

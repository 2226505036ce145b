package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// row is what one fault did.
type row struct {
	fault    string
	closed   time.Duration // the longest decision while the breaker was closed
	open     time.Duration // the median decision while it was open
	admitted int64         // by FailLocal during the outage
	recovery time.Duration // from the fault's end to the first decision by the store
}

var reportFile = flag.String("report", "", "write the table of faults to this file; recovery within 2 s is required then")

var rows struct {
	sync.Mutex
	lines []string
}

// report keeps r for the table. Only a run for the table holds the machine to the promised times: it
// has the machine to itself.
func report(t *testing.T, r row) {
	t.Helper()
	t.Logf("%+v", r)
	if *reportFile == "" {
		return
	}
	require.Less(t, r.recovery, 2*time.Second, "promise: recovery within 2 s")
	rows.Lock()
	defer rows.Unlock()
	rows.lines = append(rows.lines, fmt.Sprintf("| %s | %v | %v | %d of %d | %v |\n",
		r.fault, r.closed.Round(time.Millisecond/10), r.open.Round(time.Microsecond/10), r.admitted, capacity, r.recovery.Round(time.Millisecond)))
}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if *reportFile != "" && code == 0 {
		if err := os.WriteFile(*reportFile, []byte(strings.Join(rows.lines, "")), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func middle(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[len(times)/2]
}

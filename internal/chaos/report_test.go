package chaos_test

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

var reportFile = flag.String("report", "", "write the measured tables to this file; recovery within 2 s is required then")

var tables struct {
	sync.Mutex
	outages, memory, takeovers, evictions []string
}

// reportMemory adds the memory that n keys take to the table.
func reportMemory(what string, bytes uint64, n int) {
	tables.Lock()
	defer tables.Unlock()
	tables.memory = append(tables.memory, fmt.Sprintf("| %s | %.1f MB | %.0f |\n", what, float64(bytes)/1e6, float64(bytes)/float64(n)))
}

func TestMain(m *testing.M) {
	flag.Parse()
	if *reportFile == "" { // most tests wait for servers
		_ = flag.Set("test.parallel", "8")
	}
	code := m.Run()
	if *reportFile != "" && code == 0 {
		var sections []string
		for _, rows := range [][]string{tables.outages, tables.memory, tables.takeovers, tables.evictions} {
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

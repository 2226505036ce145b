// Package doctor finds what is wrong with a Redis that has limits, and says
// what to do.
package doctor

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/tokenbucket-go/ratelimit/cmd/ratelimit/internal/show"
)

// Finding is what one check found.
type Finding struct {
	Check string `json:"check"`        // what was looked at
	Level string `json:"level"`        // ok, note or fault
	Says  string `json:"says"`         // what was found
	Do    string `json:"do,omitempty"` // what to do
}

// Levels of findings.
const (
	OK    = "ok"
	Note  = "note"  // worth knowing, and perhaps right
	Fault = "fault" // to be corrected
)

// Findings are in the order of the checks.
type Findings []Finding

func (f *Findings) add(check, level, says, do string) {
	*f = append(*f, Finding{check, level, says, do})
}

// Faults is how many findings are faults.
func (f Findings) Faults() (n int) {
	for _, one := range f {
		if one.Level == Fault {
			n++
		}
	}
	return n
}

// Replica reports whether a server is a replica.
func (f Findings) Replica() bool {
	return slices.ContainsFunc(f, func(one Finding) bool {
		return one.Check == "version" && one.Level == Fault && strings.HasSuffix(one.Says, aReplica)
	})
}

// Write writes a line for each finding, and what to do below it.
func (f Findings) Write(w io.Writer) error {
	var t show.Table
	for _, one := range f {
		t.Row(fmt.Sprintf("%-5s", one.Level), fmt.Sprintf("%-11s", one.Check), one.Says)
		if one.Do != "" {
			t.Row("", "", "→ "+one.Do)
		}
	}
	return t.Write(w)
}

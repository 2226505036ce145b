package redisstore_test

import (
	"fmt"
	"strings"
)

// What was covered: docs/reliability.md shows this table.

// matrix counts, for each pair of kinds of operations, how often the second
// followed the first on one key.
type matrix struct {
	counts [kinds][kinds]int64
	seen   [kinds]bool // in the current simulation
}

func (m *matrix) begin() { m.seen = [kinds]bool{} }

// add counts an operation, which may be of several kinds.
func (m *matrix) add(now []opKind) {
	if m == nil {
		return
	}
	for _, b := range now {
		for a, came := range m.seen {
			if came {
				m.counts[a][b]++
			}
		}
	}
	for _, k := range now {
		m.seen[k] = true
	}
}

func (m *matrix) merge(other *matrix) {
	for a := range m.counts {
		for b := range m.counts[a] {
			m.counts[a][b] += other.counts[a][b]
		}
	}
}

// String returns the matrix, with a row for each kind that came first.
func (m *matrix) String() string {
	var b strings.Builder
	b.WriteString("operations in columns that came after those in rows on one key\n           ")
	for k := range kinds {
		fmt.Fprintf(&b, " %5.5s", strings.ReplaceAll(kindNames[k], "clock ", ""))
	}
	for a := range kinds {
		fmt.Fprintf(&b, "\n%-11s", kindNames[a])
		for _, n := range m.counts[a] {
			fmt.Fprintf(&b, " %5s", short(n))
		}
	}
	return b.String()
}

func short(n int64) string {
	switch {
	case n >= 10_000_000:
		return fmt.Sprintf("%dM", n/1_000_000)
	case n >= 10_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// missing returns the pairs that never followed each other.
func (m *matrix) missing(leases bool) (pairs []string) {
	for a := range kinds {
		for b := range kinds {
			if !leases && (a == isLease || b == isLease || a == doSettle || b == doSettle) {
				continue
			}
			if m.counts[a][b] == 0 {
				pairs = append(pairs, kindNames[b]+" after "+kindNames[a])
			}
		}
	}
	return pairs
}

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	epyc = Run{Machine{Processor: "AMD EPYC (family 25, model 17, stepping 1, 2700 MHz)", Cores: 2}, "2026-01-02", "0123abcd", "7 rounds of 600ms", []Target{
		AtLeast("decisions/s, goroutines: 1", "redis_rate", 2.5, 2),
		AtLeast("decisions/s, goroutines: 4", "redis_rate", 0.5, 2),
		UpTo("a denied key", "ns", 130, 120),
		None("a denied key", "Redis commands", 0.001),
	}}
	xeon = Run{Machine{Processor: "Intel(R) Xeon(R) CPU @ 2.20GHz (family 6)", Cores: 4}, "2025-12-31", "fedc9876", "3 rounds of 200ms", []Target{
		AtLeast("decisions/s, goroutines: 1", "redis_rate", 1.5, 1), // the target was lower then
		AtLeast("decisions/s, goroutines: 4", "redis_rate", 1.5, 1),
		UpTo("a denied key", "ns", 100, 150),
	}}
)

func TestRunsAreStoredByProcessor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "benchmarks")
	if runs, err := Stored(dir, xeon.Machine); len(runs) != 0 || err != nil {
		t.Errorf("%d runs where none was stored, %v", len(runs), err)
	}
	old := xeon
	old.Commit = "older"
	for _, r := range []Run{epyc, old, xeon} {
		if err := r.Save(dir); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Stored(dir, xeon.Machine)
	if err != nil || len(runs) != 2 {
		t.Fatalf("%d runs, %v, must be one for each processor", len(runs), err)
	}
	if runs[0].Commit != xeon.Commit || runs[1].Commit != epyc.Commit {
		t.Errorf("runs %+v, must be the last of this processor, then the other", runs)
	}
	if runs[1].Targets[1] != epyc.Targets[1] {
		t.Errorf("target %+v, must be %+v", runs[1].Targets[1], epyc.Targets[1])
	}
	if _, err := os.Stat(filepath.Join(dir, "intel-xeon-cpu-2-20ghz-family-6-4-cores.json")); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Stored(dir, xeon.Machine); err == nil || !strings.Contains(err.Error(), "bad.json") {
		t.Errorf("error %v, must name the file that can't be read", err)
	}
}

func TestTheClockIsNoPartOfAMachinesName(t *testing.T) {
	a, b := epyc.Machine, epyc.Machine
	b.Processor = strings.Replace(b.Processor, "2700", "2800", 1)
	if slug(a) != slug(b) || slug(a) != "amd-epyc-family-25-model-17-stepping-1-2-cores" {
		t.Errorf("names %q and %q", slug(a), slug(b))
	}
}

// An older run is judged by the targets of today, and does not meet what it did not measure.
func TestMachinesSayHowManyTargetsTheyMeet(t *testing.T) {
	got := Machines([]Run{epyc, xeon})
	for _, part := range []string{
		"It meets 2 of 4 targets: [values, and versions of the contenders](benchmarks/amd-epyc-family-25-model-17-stepping-1-2-cores.json).",
		"It meets 1 of 4 targets: [values, and versions of the contenders](benchmarks/intel-xeon-cpu-2-20ghz-family-6-4-cores.json).",
	} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
}

func TestMachinesSayWhenAndWhatWasMeasured(t *testing.T) {
	got := Machines([]Run{epyc, xeon})
	for _, part := range []string{"on 2026-01-02, at commit 0123abcd, in 7 rounds of 600ms.", "on 2025-12-31, at commit fedc9876, in 3 rounds of 200ms."} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
}

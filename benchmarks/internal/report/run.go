package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Run is what a run of the benchmarks on one machine gave for the targets.
type Run struct {
	Machine Machine  `json:"machine"`
	Date    string   `json:"date"`
	Commit  string   `json:"commit"` // of the measured tree
	Rounds  string   `json:"rounds"`
	Targets []Target `json:"targets"`
}

// Save writes the run to a file in dir that is named after the processor, in place of an older run on it.
func (r Run) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, slug(r.Machine)+".json"), append(text, '\n'), 0o644)
}

// Stored are the runs in dir, that of the machine m first.
func Stored(dir string, m Machine) ([]Run, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var first, others []Run
	for _, entry := range entries {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var r Run
		if err := json.Unmarshal(text, &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if slug(r.Machine) == slug(m) {
			first = append(first, r)
		} else {
			others = append(others, r)
		}
	}
	return slices.Concat(first, others), nil
}

var (
	frequency = regexp.MustCompile(`,? *\d+ MHz`)
	notInSlug = regexp.MustCompile(`(\(r\)|\(tm\)|[^a-z0-9])+`)
)

// slug is a name of the machine for files: its processor without the clock, which may differ a little from run to run.
func slug(m Machine) string {
	name := strings.ToLower(frequency.ReplaceAllString(m.Processor, ""))
	return fmt.Sprintf("%s-%d-cores", strings.Trim(notInSlug.ReplaceAllString(name, "-"), "-"), m.Cores)
}

// Targets is the table of what was promised in the first run, with a column of measured values for each run.
func Targets(runs []Run) string {
	head := []string{"what", "target"}
	for _, r := range runs {
		head = append(head, r.Machine.Name())
	}
	rows := [][]string{head}
	for _, t := range runs[0].Targets {
		row := []string{t.What, t.promise()}
		for _, r := range runs {
			value := "–" // the run is older than the target
			if i := slices.IndexFunc(r.Targets, t.isOf); i >= 0 {
				value = t.result(r.Targets[i].Value)
			}
			row = append(row, value)
		}
		rows = append(rows, row)
	}
	return Table(rows)
}

// Machines is a table with a column for each run's machine.
func Machines(runs []Run) string {
	rows := [][]string{{"processor"}, {"kernel"}, {"Go"}, {"Redis"}, {"measured on"}, {"at commit"}, {"in"}}
	for _, r := range runs {
		m := r.Machine
		for i, value := range []string{
			m.Name(), m.Kernel, fmt.Sprintf("%s, GOMAXPROCS %d", m.Go, m.GOMAXPROCS), m.Redis, r.Date, r.Commit, r.Rounds,
		} {
			rows[i] = append(rows[i], value)
		}
	}
	var b strings.Builder
	b.WriteString(Table(rows))
	for i, r := range runs {
		if i == 0 {
			fmt.Fprintf(&b, "\nContenders: %s.\n", strings.Join(r.Machine.Contenders, ", "))
		} else if !slices.Equal(r.Machine.Contenders, runs[0].Machine.Contenders) {
			fmt.Fprintf(&b, "\nContenders on %s: %s.\n", r.Machine.Name(), strings.Join(r.Machine.Contenders, ", "))
		}
	}
	return b.String()
}

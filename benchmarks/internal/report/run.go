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

// Targets says how many of the first run's targets it meets, and lists those that a run does not meet, with the value of each run and the target.
// A line has the targets of one scale. Of several whose names agree up to a colon, the later ones show what follows it.
func Targets(runs []Run) string {
	var scales []string
	missed := map[string]string{} // by scale
	last := map[string]string{}   // the name up to a colon, by scale
	met := 0
	for _, t := range runs[0].Targets {
		var values []string
		anyMissed := false
		for n, r := range runs {
			i := slices.IndexFunc(r.Targets, t.isOf)
			if i < 0 {
				values = append(values, "–") // the run is older than the target
				continue
			}
			measured := r.Targets[i].Value
			values = append(values, t.result(measured))
			switch {
			case !t.isMetBy(measured):
				anyMissed = true
			case n == 0:
				met++
			}
		}
		if !anyMissed {
			continue
		}
		scale, name := t.scale(), t.What
		if !slices.Contains(scales, scale) {
			scales = append(scales, scale)
		} else {
			missed[scale] += "; "
		}
		if before, rest, found := strings.Cut(name, ": "); found && before == last[scale] {
			name = rest
		} else {
			last[scale] = before
		}
		missed[scale] += fmt.Sprintf("%s %s (%s)", name, strings.Join(values, " | "), t.promise())
	}
	text := fmt.Sprintf("The first machine's run meets %d of %d targets.", met, len(runs[0].Targets))
	if len(missed) == 0 {
		return text + "\n"
	}
	text += " These are not met"
	if len(runs) > 1 {
		text += " everywhere, with the values of each machine"
	}
	text += " (target):\n\n"
	for _, scale := range scales {
		text += "- " + scale + ": " + missed[scale] + "\n"
	}
	return text
}

// Machines is a list of the runs' machines, with the contenders of each.
func Machines(runs []Run) string {
	var b strings.Builder
	for i, r := range runs {
		m := r.Machine
		fmt.Fprintf(&b, "- %s: %s, %s, GOMAXPROCS %d, Redis %s; on %s, at commit %s, in %s.", m.Name(), m.Kernel, m.Go, m.GOMAXPROCS, m.Redis,
			r.Date, r.Commit, r.Rounds)
		if i == 0 || !slices.Equal(m.Contenders, runs[0].Machine.Contenders) {
			fmt.Fprintf(&b, " [Versions of the contenders](benchmarks/%s.json).", slug(m))
		}
		b.WriteString("\n")
	}
	return b.String()
}

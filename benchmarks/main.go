// This program measures this library beside its peers, and writes the tables of
// docs/reliability.md:
//
//	cd benchmarks
//	go run .                                                      # some minutes: close other programs
//	go run . -rounds 1 -time 50ms -bench 'Redis|Denied' -page ''  # a quick look that writes nothing
//
// It needs a redis-server on the PATH. In each round all benchmarks of ./bench
// run once, the peers of each one after another, so ratios within a round are
// of times that are close together.
package main

import (
	"bytes"
	"cmp"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	log.SetFlags(0)
	rounds := flag.Int("rounds", 5, "rounds of all benchmarks")
	each := flag.Duration("time", 300*time.Millisecond, "how long a benchmark of one peer runs in a round")
	bench := flag.String("bench", ".", "regular expression of the benchmarks to run; with one, the tables are printed")
	page := flag.String("page", "../docs/reliability.md", "the page that gets the tables; without one, they are printed")
	flag.Parse()
	if *bench != "." {
		*page = "" // a part must not replace the whole
	}
	r, err := measure(*rounds, *each, *bench)
	if err != nil {
		log.Fatalf("benchmarks: %v", err)
	}
	text := fmt.Sprintf("Measured on %s at commit %s, on %s. Rounds: %d of %v.\n\n%s",
		time.Now().UTC().Format(time.DateOnly), commit(), machine(r), *rounds, *each, r.tables())
	if *page == "" {
		fmt.Print(text)
		return
	}
	old, err := os.ReadFile(*page)
	if err == nil {
		old, err = replaceMeasured(old, text)
	}
	if err == nil {
		err = os.WriteFile(*page, old, 0o644)
	}
	if err != nil {
		log.Fatalf("benchmarks: %s: %v", *page, err)
	}
}

// measure runs the benchmarks.
func measure(rounds int, each time.Duration, bench string) (*results, error) {
	dir, err := os.MkdirTemp("", "benchmarks")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	program := filepath.Join(dir, "bench.test")
	if out, err := exec.Command("go", "test", "-c", "-o", program, "./bench").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go test -c ./bench: %w\n%s", err, out)
	}
	r := newResults()
	for n := range rounds {
		log.Printf("round %d of %d", n+1, rounds)
		var out bytes.Buffer
		run := exec.Command(program, "-test.run=^$", "-test.timeout=0",
			"-test.bench="+bench, "-test.benchtime="+each.String())
		run.Env = append(os.Environ(), "REQUIRE_REDIS=1") // without a redis-server it fails, rather than skip
		run.Stdout, run.Stderr = io.MultiWriter(&out, os.Stderr), os.Stderr
		if err := run.Run(); err != nil {
			return nil, fmt.Errorf("round %d: %w", n+1, err)
		}
		if err := r.add(out.String()); err != nil {
			return nil, err
		}
	}
	if len(r.values) == 0 {
		return nil, fmt.Errorf("no benchmark of ./bench matches %q in %d rounds", bench, rounds)
	}
	return r, nil
}

// machine describes what was measured on.
func machine(r *results) string {
	redis := "unknown"
	if out, err := exec.Command("redis-server", "--version").Output(); err == nil {
		_, redis, _ = strings.Cut(string(out), "v=")
		redis, _, _ = strings.Cut(redis, " ")
	}
	return fmt.Sprintf("%s, %d cores, %s/%s, %s, Redis %s",
		cmp.Or(r.cpu, "an unknown processor"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(), redis)
}

// commit names the commit of the measured code. A run itself changes docs.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=8", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	name := strings.TrimSpace(string(out))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", "..", ":(exclude)../docs").Run() != nil {
		name += " and uncommitted changes"
	}
	return name
}

const (
	begin = "<!-- measured: from here to the end mark everything is written by benchmarks/main.go -->"
	end   = "<!-- end of measured -->"
)

// replaceMeasured replaces what stands between the marks of a page.
func replaceMeasured(page []byte, measured string) ([]byte, error) {
	head, rest, begins := strings.Cut(string(page), begin)
	_, tail, ends := strings.Cut(rest, end)
	if !begins || !ends {
		return nil, fmt.Errorf("the lines %q and %q are missing", begin, end)
	}
	return []byte(head + begin + "\n\n" + strings.TrimSpace(measured) + "\n\n" + end + tail), nil
}

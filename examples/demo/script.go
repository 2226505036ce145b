package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"sync"
)

// A scenario is requests to run with one click: what to expect, and whether it was so.
type scenario struct {
	id, title, expect string
	run               func(context.Context, *rehearsal) (verdict, error)
	needsServer       bool // a redis-server of its own
}

type scenarioInfo struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Expect    string `json:"expect"`
	Available bool   `json:"available"`
	Reason    string `json:"reason"`
}

// script runs one scenario at a time.
type script struct {
	// stage is held while settings or buckets change for everybody, and while a scenario takes the stage: so none
	// begins in the midst of a change, and none is changed under.
	stage sync.Mutex

	mu       sync.Mutex // guards all below
	current  string
	cancel   context.CancelFunc
	verdicts map[string]verdict

	rehearsals sync.WaitGroup
}

func (s *script) running() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current != ""
}

func (s *script) info() (list []scenarioInfo, verdicts map[string]verdict, running string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sc := range scenarios {
		i := scenarioInfo{ID: sc.id, Title: sc.title, Expect: sc.expect, Available: true}
		if sc.needsServer {
			if _, err := exec.LookPath("redis-server"); err != nil {
				i.Available, i.Reason = false, "needs redis-server on the PATH: the demo stops only a Redis of its own"
			}
		}
		list = append(list, i)
	}
	return list, maps.Clone(s.verdicts), s.current
}

var errRunning = errors.New("a scenario is running: stop it first, or wait until it is over")

// between does f, unless a scenario is running.
func (s *script) between(f func() error) error {
	s.stage.Lock()
	defer s.stage.Unlock()
	if s.running() {
		return errRunning
	}
	return f()
}

// begin takes the stage for a scenario, unless there is a reason why it can't run.
func (s *script) begin(id, reason string, cancel context.CancelFunc) error {
	if reason != "" {
		return errors.New(reason)
	}
	s.stage.Lock()
	defer s.stage.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != "" {
		return errRunning
	}
	s.current, s.cancel = id, cancel
	return nil
}

func (s *script) end(v verdict) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.verdicts == nil {
		s.verdicts = make(map[string]verdict)
	}
	s.verdicts[s.current] = v
	s.current = ""
}

func (d *demo) postScenario(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	list, _, _ := d.script.info()
	for i, sc := range scenarios {
		if sc.id != id {
			continue
		}
		ctx, cancel := context.WithCancel(context.Background())
		err := d.script.begin(id, list[i].Reason, cancel)
		if err != nil {
			cancel()
			writeJSON(w, http.StatusConflict, map[string]string{"error": err.Error()})
			return
		}
		d.script.rehearsals.Go(func() {
			defer cancel()
			d.rehearse(ctx, sc)
		})
		w.WriteHeader(http.StatusAccepted)
		return
	}
	writeJSON(w, http.StatusNotFound, map[string]string{"error": "there is no such scenario"})
}

func (d *demo) stopScenario(w http.ResponseWriter, _ *http.Request) {
	d.script.stop()
	w.WriteHeader(http.StatusNoContent)
}

// stop ends the scenario that runs, if one does.
func (s *script) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	}
}

// close ends it and waits until it has cleaned up: a server and a directory of its own.
func (s *script) close() {
	s.stop()
	s.rehearsals.Wait()
}

// runs is how often a scenario is run until there is a verdict.
const runs = 3

// rehearse runs a scenario under its own settings and puts everybody's back.
func (d *demo) rehearse(ctx context.Context, sc scenario) {
	d.hub.send("scenario", map[string]any{"id": sc.id, "running": true})
	before := d.scene.Load()
	var v verdict
	for n := range runs {
		r := d.rehearsal(sc.id)
		if n > 0 {
			r.say("too much else was going on: once more")
		}
		v = r.run(ctx, sc)
		d.show(before)
		for _, undo := range slices.Backward(r.undo) {
			undo()
		}
		if !v.again || ctx.Err() != nil {
			break
		}
	}
	if ctx.Err() != nil {
		v = verdict{Outcome: none, Text: "Stopped before there was a verdict."}
	}
	d.script.end(v)
	d.hub.send("scenario", map[string]any{"id": sc.id, "running": false, "verdict": v})
}

// run is one run. What keeps it from running is for the terminal; the page says it in plain words.
func (r *rehearsal) run(ctx context.Context, sc scenario) verdict {
	v, err := sc.run(ctx, r)
	if err == nil {
		return v
	}
	if ctx.Err() == nil {
		fmt.Fprintf(os.Stderr, "demo: scenario %s: %v\n", sc.id, err)
	}
	if sc.needsServer {
		return slow("The scenario’s own Redis did not start.")
	}
	return slow("It could not be set up.")
}

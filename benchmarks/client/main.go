// Command client measures clients of a service that serves 50 requests a
// second: how many of their requests it refuses, how much of the limit they
// use, how long requests wait, and whether clients get alike. It prints what
// the table of docs/client.md shows, a row for each case:
//
//	cd benchmarks && GOWORK=off go run ./client            # twenty minutes
//	cd benchmarks && GOWORK=off go run ./client -for 5s    # a quick look
//
// It needs redis-server on the PATH, for the clients that share a limiter.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

// perSecond is the service's limit.
const perSecond = 50

func main() {
	log.SetFlags(0)
	length := flag.Duration("for", time.Minute, "how long each case takes")
	only := flag.String("only", "", "one method")
	worker := flag.String("worker", "", "for processes that this one starts")
	flag.Parse()
	if *worker != "" {
		runWorker(*worker)
		return
	}
	redis, stop, err := startRedis()
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	fmt.Println("| client | fields of the answers | clients × processes | refused | goodput | p99 wait | Jain |")
	fmt.Println("| --- | --- | --- | --- | --- | --- | --- |")
	for _, method := range methods {
		if *only != "" && method.name != *only {
			continue
		}
		for _, style := range styles {
			var all sync.WaitGroup
			rows := make([]string, len(sizes))
			for i, size := range sizes {
				all.Go(func() {
					c := workerCase{Method: method.name, Clients: size.clients, For: *length, Redis: redis}
					c.Key = strconv.Itoa(os.Getpid()) + method.name + style.name + size.String()
					rows[i] = measure(c, style, size.processes).row(method.name, style.name, size.String(), *length)
				})
			}
			all.Wait()
			for _, row := range rows {
				fmt.Println(row)
			}
		}
	}
}

// size is how many clients there are.
type size struct{ clients, processes int }

func (s size) String() string { return fmt.Sprintf("%d × %d", s.clients, s.processes) }

var sizes = []size{{1, 1}, {10, 1}, {100, 1}, {1, 4}, {10, 4}, {100, 4}}

// outcome is what the clients of one case got.
type outcome struct {
	Served  []int // by client
	Waits   []time.Duration
	refused int64
}

// measure runs a case on a service of its own.
func measure(c workerCase, style style, processes int) outcome {
	service := newService(style)
	defer service.Close()
	c.URL = service.URL
	c.Begin = time.Now().Add(500 * time.Millisecond)
	text, err := json.Marshal(c)
	if err != nil {
		log.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		log.Fatal(err)
	}
	var all outcome
	var mu sync.Mutex
	var running sync.WaitGroup
	for range processes {
		running.Go(func() {
			var out bytes.Buffer
			cmd := exec.Command(self, "-worker", string(text))
			cmd.Stdout, cmd.Stderr = &out, os.Stderr
			if err := cmd.Run(); err != nil {
				log.Fatal(err)
			}
			var one outcome
			if err := json.Unmarshal(out.Bytes(), &one); err != nil {
				log.Fatal(err)
			}
			mu.Lock()
			defer mu.Unlock()
			all.Served, all.Waits = append(all.Served, one.Served...), append(all.Waits, one.Waits...)
		})
	}
	running.Wait()
	all.refused = service.refused.Load()
	return all
}

// row is an outcome as a row of the table. Goodput is what was served of what
// the limit admits: its burst, and then 50 a second.
func (o outcome) row(method, style, size string, length time.Duration) string {
	sum, squares := 0.0, 0.0
	for _, n := range o.Served {
		sum, squares = sum+float64(n), squares+float64(n)*float64(n)
	}
	slices.Sort(o.Waits)
	p99 := time.Duration(0)
	if n := len(o.Waits); n > 0 {
		p99 = o.Waits[min(n-1, n*99/100)]
	}
	admitted := perSecond * (1 + length.Seconds())
	return fmt.Sprintf("| %s | %s | %s | %.1f %% | %.1f %% | %.2f s | %.3f |", method, style, size,
		100*float64(o.refused)/max(1, float64(o.refused)+sum), 100*sum/admitted, p99.Seconds(), sum*sum/max(1, squares)/float64(len(o.Served)))
}

// Process is one of several processes of a service that ask for the same key on one Redis. It reads the length of a round
// from each line of its standard input, asks that long, and prints how many decisions it got and how many a second. It
// ends when its standard input does.
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/measure"
	"github.com/tokenbucket-go/ratelimit/benchmarks/internal/peers"
)

func main() {
	log.SetFlags(0)
	addr := flag.String("redis", "", "address of the Redis server")
	limiter := flag.String("limiter", peers.Library, "the contender that decides")
	goroutines := flag.Int("goroutines", 16, "how many ask at once")
	key := flag.String("key", "everyone", "the key that is asked for")
	flag.Parse()
	if err := serve(*addr, *limiter, *goroutines, *key); err != nil {
		log.Fatalf("process: %s: %v", *limiter, err)
	}
}

func serve(addr, limiter string, goroutines int, key string) error {
	found, err := peers.OnRedis(peers.Connection{Addr: addr}, peers.Vast, limiter)
	if err != nil {
		return err
	}
	if len(found) != 1 {
		return fmt.Errorf("%d contenders have this name, must be 1", len(found))
	}
	request, cancel := context.WithCancel(context.Background()) // a client can hang up, so as in servers
	defer cancel()
	asker := []measure.Contender{{Name: limiter, Worker: func() func(int) error {
		return func(int) error { return found[0].Decide.Expect(request, key, true) }
	}}}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		round, err := time.ParseDuration(lines.Text())
		if err != nil {
			return err
		}
		series, err := measure.Interleave(asker, measure.Options{Goroutines: goroutines, Rounds: 1, Round: round})
		if err != nil {
			return err
		}
		fmt.Println(series[0].Median(measure.Operations), series[0].Median(measure.PerSecond))
	}
	return nil
}

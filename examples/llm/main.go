// A gateway in front of a language model. It limits requests and tokens a minute by API key, and tokens a minute and a month
// by organisation, in one decision. A call is charged an estimate, and settled when the stream has reported its usage. The
// provider is a fake in this process: it tells a story, a word at a time. Try:
//
//	go run ./examples/llm                        # buckets in this process
//	go run ./examples/llm -redis localhost:6379  # buckets shared through Redis; REDIS_ADDR is the default
//
//	ask() { curl -isN -H "Authorization: Bearer $1" -d "{\"prompt\": \"Tell me a story\", \"max_tokens\": $2}" localhost:8080/v1/generate; }
//	ask ann-secret 500           # charged 504, settled for the 4 tokens of the prompt and those of the story
//	for i in 1 2 3; do ask ann-secret 2000 >/dev/null & sleep 0.2; done; ask ann-secret 2000  # 429: the estimates of two are charged
//	for i in 1 2 3 4; do ask bob-secret 2000 >/dev/null & sleep 0.2; done; ask ann-secret 2000 >/dev/null & sleep 0.2; ask ann-secret 2000
//	                             # 429: bob and ann are of one organisation. ann's own bucket pays nothing
//	ask eve-secret 500           # 401
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"time"
	_ "time/tzdata" // policies.yaml names a time zone

	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/policyfile"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
)

//go:embed policies.yaml
var policiesYAML []byte

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", os.Getenv("REDIS_ADDR"), "address of a Redis server; empty keeps the buckets in this process")
	pause := flag.Duration("pause", 50*time.Millisecond, "time that the provider takes for a token")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("llm-example:"))
	}
	policies, err := policyfile.Load(bytes.NewReader(policiesYAML))
	if err != nil {
		log.Fatal(err)
	}
	upstream, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		log.Fatal(err)
	}
	go func() { log.Fatal(http.Serve(upstream, provider(*pause))) }()
	g, err := newGateway(store, policies, "http://"+upstream.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	log.Printf("listening on http://%s, buckets in %s", *addr, cmp.Or(*redisAddr, "this process"))
	log.Fatal(http.ListenAndServe(*addr, g))
}

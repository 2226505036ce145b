// A tool server (Model Context Protocol): calls of tools are limited by user, or without one by session, and tool, and all together by the
// text that they return. The language model reads in a refusal when to try again. Try:
//
//	cd examples/extra/mcp
//	go run .                        # streamable HTTP on http://localhost:8080, buckets in this process
//	go run . -redis localhost:6379  # buckets shared through Redis: other replicas count the same calls
//	go run . -stdio                 # on stdin and stdout, as a client starts it
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/redis/go-redis/v9"

	"github.com/tokenbucket-go/ratelimit/core"
	"github.com/tokenbucket-go/ratelimit/core/redisstore"
	"github.com/tokenbucket-go/ratelimit/httplimit"
	"github.com/tokenbucket-go/ratelimit/mcplimit"
)

func main() {
	addr := flag.String("addr", "localhost:8080", "address to listen on")
	redisAddr := flag.String("redis", "", "address of a Redis server; empty keeps the buckets in this process")
	stdio := flag.Bool("stdio", false, "serve one client on stdin and stdout instead")
	flag.Parse()
	if flag.NArg() > 0 {
		log.Fatalf("unexpected argument %q: flags are written as -redis localhost:6379", flag.Arg(0))
	}

	var store core.Store = core.NewMemoryStore()
	if *redisAddr != "" {
		store = redisstore.New(redis.NewClient(&redis.Options{Addr: *redisAddr, ContextTimeoutEnabled: true}), redisstore.WithPrefix("mcp-example:"))
	}
	server := newServer(store)
	if *stdio {
		log.Fatal(server.Run(context.Background(), &mcp.StdioTransport{}))
	}
	log.Printf("listening on http://%s", *addr)
	log.Fatal(http.ListenAndServe(*addr, newHandler(store, server)))
}

// newHandler serves server by streamable HTTP. A client can open as many sessions as it likes, so requests are limited by address and tool too.
func newHandler(store core.Store, server *mcp.Server) http.Handler {
	requests := core.Must(core.NewLimiter(store, core.Policy{Name: "requests", Limits: []core.Limit{core.PerMinute(300)}}))
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, nil)
	return httplimit.New(requests, httplimit.Join(httplimit.ByIP(), byTool))(handler)
}

// byTool is a key of httplimit in front of mcplimit.New: the tool that the header names, where the SDK checks that the body agrees.
func byTool(r *http.Request) (string, error) {
	switch name := r.Header.Get("Mcp-Name"); {
	case r.Header.Get("Mcp-Protocol-Version") < "2026-07-28" || r.Header.Get("Mcp-Method") != "tools/call":
		return core.JoinKey("other requests"), nil
	case name == "repeat":
		return core.JoinKey("tool", name), nil
	default:
		return core.JoinKey("other tools"), nil
	}
}

type repeatArguments struct {
	Text  string `json:"text"`
	Times int    `json:"times" jsonschema:"how often to repeat the text, from 1 to 100"`
}

// maxText is how many bytes one call may return. It is charged before the work, so that no call makes a debt.
const maxText = 2000

func newServer(store core.Store) *mcp.Server {
	server := mcp.NewServer(&mcp.Implementation{Name: "example", Version: "v1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "repeat", Description: "repeats a text"},
		func(_ context.Context, _ *mcp.CallToolRequest, in repeatArguments) (*mcp.CallToolResult, any, error) {
			times := min(max(in.Times, 1), 100)
			if len(in.Text) > maxText/times {
				return nil, nil, fmt.Errorf("the text would have more than %d bytes", maxText)
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: strings.Repeat(in.Text, times)}}}, nil, nil
		})

	calls := core.Must(core.NewLimiter(store, core.Policy{Name: "calls", Limits: []core.Limit{core.PerMinute(5)}}))
	text := core.Must(core.NewLimiter(store, core.Policy{Name: "text", Limits: []core.Limit{
		{Unit: "bytes", Capacity: 10_000, RefillRate: 10_000, RefillInterval: time.Hour},
	}}))
	client := mcplimit.FirstOf(mcplimit.ByTokenSubject(), mcplimit.BySession()) // behind auth.RequireBearerToken users have one bucket
	server.AddReceivingMiddleware(
		mcplimit.New(calls, mcplimit.Join(client, mcplimit.ByTool("repeat")), mcplimit.RefuseAsToolResult()),
		mcplimit.New(text, mcplimit.Global("text"), mcplimit.RefuseAsToolResult(),
			mcplimit.WithUnits(func(*mcplimit.Call) (core.Units, error) { return core.Units{"bytes": maxText}, nil }),
			mcplimit.WithSettle(func(c *mcplimit.Call) core.Units {
				return core.Units{"bytes": min(size(c.Result), maxText)} // errors of the SDK can be longer: they quote what was sent
			})),
	)
	return server
}

// size is how much text a tool returned, in bytes.
func size(result mcp.Result) (bytes int64) {
	if r, ok := result.(*mcp.CallToolResult); ok {
		for _, content := range r.Content {
			if text, ok := content.(*mcp.TextContent); ok {
				bytes += int64(len(text.Text))
			}
		}
	}
	return bytes
}

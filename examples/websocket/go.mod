// A module of its own, so that the WebSocket library stays out of the graph of the library's users.
module github.com/tokenbucket-go/ratelimit/examples/websocket

go 1.26.0

require (
	github.com/go-chi/chi/v5 v5.3.2
	github.com/redis/go-redis/v9 v9.20.0
	github.com/tokenbucket-go/ratelimit v0.0.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/coder/websocket v1.8.15
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
)

replace github.com/tokenbucket-go/ratelimit => ../..

// A module of its own, so that what these examples require, such as gRPC, the MCP SDK and SQLite, stays out of the graph of
// the library's users.
module github.com/tokenbucket-go/ratelimit/examples/extra

go 1.26.0

require (
	connectrpc.com/connect v1.19.1
	github.com/coder/websocket v1.8.15
	github.com/go-chi/chi/v5 v5.3.2
	github.com/labstack/echo/v4 v4.16.4
	github.com/modelcontextprotocol/go-sdk v1.7.0
	github.com/redis/go-redis/v9 v9.20.0
	github.com/stretchr/testify v1.11.1
	github.com/tokenbucket-go/ratelimit v0.0.0
	github.com/tokenbucket-go/ratelimit/connectlimit v0.0.0
	github.com/tokenbucket-go/ratelimit/grpclimit v0.0.0
	github.com/tokenbucket-go/ratelimit/mcplimit v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260414002931-afd174a4e478
	google.golang.org/grpc v1.82.1
	google.golang.org/grpc/examples v0.0.0-20250407062114-b368379ef8f6
	google.golang.org/protobuf v1.36.11
	modernc.org/sqlite v1.55.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/dustin/go-humanize v1.0.1 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/ncruces/go-strftime v1.0.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/remyoudompheng/bigfft v0.0.0-20230129092748-24d4a6f8daec // indirect
	github.com/segmentio/asm v1.1.3 // indirect
	github.com/segmentio/encoding v0.5.4 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	github.com/yosida95/uritemplate/v3 v3.0.2 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/crypto v0.58.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
	modernc.org/libc v1.74.1 // indirect
	modernc.org/mathutil v1.7.1 // indirect
	modernc.org/memory v1.11.0 // indirect
)

replace (
	github.com/tokenbucket-go/ratelimit => ../..
	github.com/tokenbucket-go/ratelimit/connectlimit => ../../connectlimit
	github.com/tokenbucket-go/ratelimit/grpclimit => ../../grpclimit
	github.com/tokenbucket-go/ratelimit/mcplimit => ../../mcplimit
)

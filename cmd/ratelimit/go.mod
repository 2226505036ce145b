// A module of its own, so that what the command requires reaches nobody who uses the library.
module github.com/tokenbucket-go/ratelimit/cmd/ratelimit

go 1.26.0

require (
	github.com/jedib0t/go-pretty/v6 v6.9.1
	github.com/redis/go-redis/v9 v9.20.0
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/stretchr/testify v1.11.1
	github.com/tokenbucket-go/ratelimit v0.0.0
	github.com/valyala/fastjson v1.6.4
	golang.org/x/term v0.45.0
	pgregory.net/rapid v1.1.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/goccy/go-yaml v1.18.0 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/tokenbucket-go/ratelimit => ../../

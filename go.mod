module github.com/tokenbucket-go/ratelimit

go 1.26.0

// These are floors: the oldest versions that are enough and have no published vulnerability, so that this module pushes nobody's
// framework further than needed. The comments say why not an older one. ./scripts/frameworks tests the floors and the newest
// versions.
require (
	github.com/felixge/httpsnoop v1.1.0 // before, http.ResponseController's Flush loses its error
	github.com/gin-gonic/gin v1.9.1 // before, CVE-2023-29401 and CVE-2023-26125
	github.com/go-chi/chi/v5 v5.3.2 // before, Routes shows a mount point as a route of every method
	github.com/goccy/go-yaml v1.18.0 // before, errors of brackets that are not closed have no token
	github.com/gofiber/fiber/v2 v2.52.15 // before, GHSA-c5qf-v26h-rp5r and others
	github.com/gofiber/fiber/v3 v3.4.0 // before, GO-2026-5912 and others
	github.com/labstack/echo/v4 v4.16.4 // before, GHSA-3f6j-cw5h-qw9c, GO-2026-6839 and others; v4.16.5 could not be downloaded
	github.com/labstack/echo/v5 v5.4.5 // before, GHSA-3f6j-cw5h-qw9c, GHSA-9969-6676-49h5 and others
	github.com/prometheus/client_golang v1.16.0 // before, native histograms count into wrong buckets
	github.com/redis/go-redis/v9 v9.20.0 // before v9.19, it ignores NoRetry and may charge twice; in v9.19, Close waits for commands
	github.com/sony/gobreaker/v2 v2.4.0 // before, a canceled call counts as a success or a failure
	github.com/valyala/fasthttp v1.72.0 // fiber v3.4.0 requires it
	go.opentelemetry.io/otel v1.44.0 // before, CVE-2026-41178 and others, also in the SDK
	go.opentelemetry.io/otel/metric v1.44.0
	go.opentelemetry.io/otel/trace v1.44.0
)

// For tests only.
require (
	github.com/alicebob/miniredis/v2 v2.31.0 // before, it compiles the script anew for each call
	github.com/dunglas/httpsfv v1.1.2 // before, it refuses integers of 15 digits
	github.com/stretchr/testify v1.11.1 // fiber v3.4.0 requires it
	go.opentelemetry.io/otel/sdk v1.44.0
	go.opentelemetry.io/otel/sdk/metric v1.44.0
	go.uber.org/goleak v1.3.0
	go.yaml.in/yaml/v3 v3.0.2
	pgregory.net/rapid v1.1.0
)

require (
	github.com/alicebob/gopher-json v0.0.0-20200520072559-a9ecdc9d1d3a // indirect
	github.com/andybalholm/brotli v1.2.2 // indirect
	github.com/beorn7/perks v1.0.1 // indirect
	github.com/bytedance/sonic v1.9.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/chenzhuoyu/base64x v0.0.0-20221115062448-fe3a3abad311 // indirect
	github.com/davecgh/go-spew v1.1.1 // indirect
	github.com/gabriel-vasile/mimetype v1.4.2 // indirect
	github.com/gin-contrib/sse v0.1.0 // indirect
	github.com/go-logr/logr v1.4.3 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/go-playground/locales v0.14.1 // indirect
	github.com/go-playground/universal-translator v0.18.1 // indirect
	github.com/go-playground/validator/v10 v10.14.0 // indirect
	github.com/goccy/go-json v0.10.2 // indirect
	github.com/gofiber/schema v1.8.0 // indirect
	github.com/gofiber/utils/v2 v2.1.1 // indirect
	github.com/golang/protobuf v1.5.3 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/json-iterator/go v1.1.12 // indirect
	github.com/klauspost/compress v1.19.0 // indirect; before v1.18.7, GO-2026-5841
	github.com/klauspost/cpuid/v2 v2.2.10 // indirect
	github.com/labstack/gommon v0.5.0 // indirect
	github.com/leodido/go-urn v1.2.4 // indirect
	github.com/mattn/go-colorable v0.1.15 // indirect
	github.com/mattn/go-isatty v0.0.22 // indirect
	github.com/mattn/go-runewidth v0.0.16 // indirect
	github.com/matttproud/golang_protobuf_extensions v1.0.4 // indirect
	github.com/modern-go/concurrent v0.0.0-20180306012644-bacd9c7ef1dd // indirect
	github.com/modern-go/reflect2 v1.0.2 // indirect
	github.com/pelletier/go-toml/v2 v2.0.8 // indirect
	github.com/philhofer/fwd v1.2.0 // indirect
	github.com/pmezard/go-difflib v1.0.0 // indirect
	github.com/prometheus/client_model v0.3.0 // indirect
	github.com/prometheus/common v0.42.0 // indirect
	github.com/prometheus/procfs v0.10.1 // indirect
	github.com/rivo/uniseg v0.2.0 // indirect
	github.com/tinylib/msgp v1.6.4 // indirect
	github.com/twitchyliquid64/golang-asm v0.15.1 // indirect
	github.com/ugorji/go/codec v1.2.11 // indirect
	github.com/valyala/bytebufferpool v1.0.0 // indirect
	github.com/valyala/fasttemplate v1.2.2 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.uber.org/atomic v1.11.0 // indirect
	golang.org/x/arch v0.3.0 // indirect
	golang.org/x/crypto v0.57.0 // indirect; echo v4.16.4 requires it; before v0.56.0, CVE-2026-56855 and others
	golang.org/x/net v0.60.0 // indirect; echo v4.16.4 requires it; before v0.56.0, CVE-2026-46600 and others
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect; echo v4.16.4 requires it; before v0.39.0, CVE-2026-56852
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.33.0 // indirect; before, CVE-2024-24786
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

package report

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
)

// Machine tells what was measured on.
func Machine(redisVersion string) string {
	return Table([][]string{
		{"what", "version"},
		{"processor", fmt.Sprintf("%s, %d cores, shared by clients and Redis", processor(), runtime.NumCPU())},
		{"kernel", runtime.GOOS + "/" + runtime.GOARCH + " " + kernel()},
		{"Go", fmt.Sprintf("%s, GOMAXPROCS %d", runtime.Version(), runtime.GOMAXPROCS(0))},
		{"Redis", redisVersion + ", no persistence, over the loopback interface"},
		{"contenders", strings.Join(contenders(), ", ")},
	})
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(strings.TrimSpace(string(text)), "-") // what follows names a build
	return version
}

// measured are the modules whose version matters.
var measured = []string{
	"github.com/redis/go-redis/v9", "github.com/go-redis/redis_rate/v10", "github.com/redis/rueidis/rueidislimiter",
	"github.com/ulule/limiter/v3", "github.com/throttled/throttled/v2", "github.com/go-chi/httprate",
	"github.com/go-chi/httprate-redis", "github.com/JGLTechnologies/gin-rate-limit", "github.com/sethvargo/go-limiter",
	"github.com/didip/tollbooth/v8", "golang.org/x/time", "github.com/gin-gonic/gin", "github.com/labstack/echo/v4",
	"github.com/go-chi/chi/v5", "github.com/gofiber/fiber/v2", "github.com/valyala/fasthttp",
}

// contenders are the measured modules in this program, with their versions.
func contenders() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	versions := map[string]string{}
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
	}
	var list []string
	for _, path := range measured {
		if v, ok := versions[path]; ok {
			list = append(list, strings.TrimPrefix(path, "github.com/")+" "+v)
		}
	}
	return list
}
